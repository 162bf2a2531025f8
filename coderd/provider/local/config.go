package local

import (
	"encoding/json"
	"strconv"
	"strings"

	"golang.org/x/xerrors"

	"github.com/prewarm-dev/prewarm/coderd/provider/specs"
)

// ParseConfig reads the config of a provider, which says what of Options an owner decides.
func ParseConfig(raw json.RawMessage) (Options, error) {
	var c struct {
		Root      string `json:"root"`
		AllowRoot bool   `json:"allow_root"`
		UIDs      string `json:"uids"`
	}
	if err := specs.Config(raw, &c); err != nil {
		return Options{}, err
	}
	opts := Options{Root: c.Root, AllowRoot: c.AllowRoot}
	if c.UIDs == "" {
		return opts, nil
	}
	first, last, ok := strings.Cut(c.UIDs, "-")
	a, errA := strconv.ParseUint(first, 10, 32)
	b, errB := strconv.ParseUint(last, 10, 32)
	// The last of all is no user id: to system calls it means "leave as it is".
	if !ok || errA != nil || errB != nil || a == 0 || b < a || b == 1<<32-1 {
		return opts, xerrors.Errorf("read configuration: uids %q must be a range of user ids that are nobody's, such as "+
			"1900000000-1999999999", c.UIDs)
	}
	opts.Uids = Uids{uint32(a), uint32(b)}
	return opts, nil
}
