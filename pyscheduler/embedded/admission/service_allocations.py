"""Cluster IPs and node ports that Services have: which are free, without a scan of all Services."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from ipaddress import IPv4Address, IPv4Network
from typing import ClassVar, Final

from pyscheduler.embedded.objects import Json

CLUSTER_IPS: Final = IPv4Network("10.96.0.0/12")
NODE_PORTS: Final = range(30000, 32768)
API_SERVER_IP: Final = str(CLUSTER_IPS[1])
_ADDRESSES: Final = range(int(CLUSTER_IPS[2]), int(CLUSTER_IPS.broadcast_address))


class NumberAllocator:
    """Numbers in use of a range; the lowest free one is found without a look at all that are in use."""

    def __init__(self, numbers: range) -> None:
        self._numbers, self._lowest = numbers, numbers.start
        self._used: Counter[int] = Counter()

    def __contains__(self, number: int) -> bool:
        return self._used[number] > 0

    def take(self, number: int) -> None:
        """Count one more user of a number."""
        self._used[number] += 1

    def release(self, number: int) -> None:
        """Count one user of a number less."""
        self._used[number] -= 1
        if self._used[number] <= 0:
            del self._used[number]
            if number in self._numbers:
                self._lowest = min(self._lowest, number)

    def free(self) -> Iterator[int]:
        """Yield the numbers that are not in use, the lowest first."""
        while self._lowest in self:
            self._lowest += 1
        yield from (number for number in range(self._lowest, self._numbers.stop) if number not in self)


class ServiceAllocations:
    """Index of the store: addresses and node ports of all Services."""

    bucket: ClassVar[str] = "services"

    def __init__(self) -> None:
        self.addresses, self.ports = NumberAllocator(_ADDRESSES), NumberAllocator(NODE_PORTS)

    def change(self, before: Json | None, after: Json | None) -> None:
        """Apply one change of a Service."""
        if before is not None:
            for pool, numbers in self._of(before):
                for number in numbers:
                    pool.release(number)
        if after is not None:
            for pool, numbers in self._of(after):
                for number in numbers:
                    pool.take(number)

    def _of(self, service: Json) -> tuple[tuple[NumberAllocator, set[int]], ...]:
        return (self.addresses, addresses_of(service)), (self.ports, ports_of(service))


def ports_of(service: Json) -> set[int]:
    """Return the node ports of a Service; ports of two protocols may share one."""
    return {port["nodePort"] for port in service["spec"].get("ports") or () if port.get("nodePort")}


def addresses_of(service: Json) -> set[int]:
    """Return the cluster IP of a Service as a number, if it has one."""
    address = address_of(str(service["spec"].get("clusterIP") or ""))
    return set() if address is None else {address}


def address_of(text: str) -> int | None:
    """Return a cluster IP as a number, None for a text that is none."""
    try:
        address = IPv4Address(text)
    except ValueError:
        return None
    return int(address) if address in CLUSTER_IPS else None
