package main

import (
	"errors"
	"fmt"
	"math"
	"sort"
	"strconv"
	"strings"

	"github.com/blang/semver/v4"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
	resourceapi "k8s.io/api/resource/v1"
	apiservercel "k8s.io/apiserver/pkg/cel"
)

// native returns the value of an attribute as the evaluator receives it.
func native(attribute resourceapi.DeviceAttribute) (any, error) {
	switch {
	case attribute.IntValues != nil:
		return attribute.IntValues, nil
	case attribute.BoolValues != nil:
		return attribute.BoolValues, nil
	case attribute.StringValues != nil:
		return attribute.StringValues, nil
	case attribute.VersionValues != nil:
		versions := make([]apiservercel.Semver, 0, len(attribute.VersionValues))
		for _, text := range attribute.VersionValues {
			version, err := semver.Parse(text)
			if err != nil {
				return nil, err
			}
			versions = append(versions, apiservercel.Semver{Version: version})
		}
		return versions, nil
	case attribute.IntValue != nil:
		return *attribute.IntValue, nil
	case attribute.BoolValue != nil:
		return *attribute.BoolValue, nil
	case attribute.StringValue != nil:
		return *attribute.StringValue, nil
	case attribute.VersionValue != nil:
		version, err := semver.Parse(*attribute.VersionValue)
		return apiservercel.Semver{Version: version}, err
	}
	return nil, errors.New("unsupported attribute value")
}

// text returns a value with its type in one line that other programs can build too: maps are sorted by the text of their keys.
func text(value ref.Val) string {
	switch v := value.(type) {
	case types.Null:
		return "null"
	case types.Double:
		return "double " + double(float64(v))
	case types.String:
		return "string " + strconv.QuoteToASCII(string(v))
	case types.Bytes:
		return fmt.Sprintf("bytes %x", []byte(v))
	case types.Timestamp:
		return fmt.Sprintf("timestamp %d.%09d", v.Unix(), v.Nanosecond())
	case types.Duration:
		return fmt.Sprintf("duration %d", v.Duration.Nanoseconds())
	case *types.Optional:
		if !v.HasValue() {
			return "optional none"
		}
		return "optional " + text(v.GetValue())
	case apiservercel.Quantity:
		return quantity(v)
	case *apiservercel.Quantity:
		return quantity(*v)
	case apiservercel.Semver:
		return "semver " + v.String()
	case apiservercel.IP:
		return "ip " + v.String()
	case apiservercel.CIDR:
		return "cidr " + v.String()
	case apiservercel.URL:
		return "url " + strconv.QuoteToASCII(v.String())
	case apiservercel.Format:
		return "format " + v.Name
	case traits.Lister:
		return list(v)
	case traits.Mapper:
		return mapping(v)
	case ref.Type:
		return "type " + v.TypeName()
	}
	return fmt.Sprintf("%s %v", value.Type().TypeName(), value.Value())
}

// quantity returns the canonical form: String returns the parsed text if that is almost canonical, such as "1.e3".
func quantity(v apiservercel.Quantity) string {
	number, suffix := v.CanonicalizeBytes(nil)
	return fmt.Sprintf("quantity %s%s", number, suffix)
}

func double(v float64) string {
	if math.IsNaN(v) {
		return "NaN"
	}
	return strconv.FormatUint(math.Float64bits(v), 16)
}

func list(values traits.Lister) string {
	var parts []string
	for it := values.Iterator(); it.HasNext() == types.True; {
		parts = append(parts, text(it.Next()))
	}
	return "[" + strings.Join(parts, ", ") + "]"
}

func mapping(values traits.Mapper) string {
	var parts []string
	for it := values.Iterator(); it.HasNext() == types.True; {
		key := it.Next()
		value, _ := values.Find(key)
		parts = append(parts, text(key)+": "+text(value))
	}
	sort.Strings(parts)
	return "{" + strings.Join(parts, ", ") + "}"
}
