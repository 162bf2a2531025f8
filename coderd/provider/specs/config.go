package specs

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/docker/go-units"
	"golang.org/x/xerrors"
)

// Config reads a provider's configuration over what into has, and checks it where it has a Check. Fields that it does not know
// are errors.
func Config(raw json.RawMessage, into any) error {
	if len(bytes.TrimSpace(raw)) > 0 {
		d := json.NewDecoder(bytes.NewReader(raw))
		d.DisallowUnknownFields()
		if err := d.Decode(into); err != nil {
			return xerrors.Errorf("read configuration: %w", err)
		}
	}
	if c, checks := into.(interface{ Check() error }); checks {
		return c.Check()
	}
	return nil
}

// Duration of a configuration is written as 90s or 20m.
type Duration time.Duration

// UnmarshalJSON reads "20m".
func (d *Duration) UnmarshalJSON(raw []byte) error {
	var s string
	_ = json.Unmarshal(raw, &s)
	parsed, err := time.ParseDuration(s)
	if err != nil || parsed <= 0 {
		return xerrors.Errorf(`%s is not a duration such as "90s" or "20m"`, bytes.TrimSpace(raw))
	}
	*d = Duration(parsed)
	return nil
}

// Or is the duration, or another where none is given.
func (d Duration) Or(otherwise time.Duration) time.Duration {
	if d == 0 {
		return otherwise
	}
	return time.Duration(d)
}

// Size is a number of bytes, written as 512m or 2g.
type Size int64

// UnmarshalJSON reads "512m".
func (s *Size) UnmarshalJSON(raw []byte) error {
	n, ok := ParseSize(raw)
	if !ok {
		return xerrors.Errorf(`%s is not a size such as "512m" or "2g"`, bytes.TrimSpace(raw))
	}
	*s = Size(n)
	return nil
}

// ParseSize reads a size of more than 0 bytes.
func ParseSize(raw json.RawMessage) (int64, bool) {
	var s string
	_ = json.Unmarshal(raw, &s)
	n, err := units.RAMInBytes(s)
	return n, err == nil && n > 0
}

// CheckFile checks a setting that is the absolute path of a file, or empty.
func CheckFile(setting, path string) error {
	if path == "" {
		return nil
	}
	if _, err := os.Stat(path); err != nil || !filepath.IsAbs(path) {
		return xerrors.Errorf("%s: %q is not the absolute path of a file that is there", setting, path)
	}
	return nil
}

// CheckCallbackHost checks the setting callback_host.
func CheckCallbackHost(host string) error {
	if strings.ContainsAny(host, "/@ ") {
		return xerrors.Errorf("callback_host: %q is neither a host nor host:port", host)
	}
	return nil
}
