"""Key pairs with which the pods of a Volcano Job log in to each other."""

from __future__ import annotations

import asyncio
from typing import Final

PRIVATE_KEY: Final = "id_rsa"
PUBLIC_KEY: Final = "id_rsa.pub"
AUTHORIZED_KEYS: Final = "authorized_keys"
CONFIG: Final = "config"

_BITS: Final = 2048
_EXPONENT: Final = 65537


def key_files(private: str, public: str) -> dict[str, str]:
    """Return the files of a key pair, by name, that ~/.ssh has where its owner may log in with it."""
    return {PRIVATE_KEY: private, PUBLIC_KEY: public, AUTHORIZED_KEYS: public}


async def generate_key_files() -> dict[str, str]:
    """Return the files of a new key pair. It takes about 0.1 s, in a thread, as the scheduler runs in this process."""
    return await asyncio.to_thread(_generate)


def _generate() -> dict[str, str]:
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import rsa

    key = rsa.generate_private_key(_EXPONENT, _BITS)
    private = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.TraditionalOpenSSL,
        serialization.NoEncryption(),
    )
    public = key.public_key().public_bytes(serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH)
    return key_files(private.decode(), f"{public.decode()}\n")
