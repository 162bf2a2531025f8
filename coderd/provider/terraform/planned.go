package terraform

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"

	"golang.org/x/xerrors"
)

const (
	maxCreates      = 10_000  // addresses of a plan that are kept
	maxCreatesBytes = 1 << 20 // of them together
	// replacing is said of what a plan creates in place of another resource of the same address. A state that names the address may
	// mean the one before, so that only the apply's end settles it: no address ends so.
	replacing = " (its replacement)"
)

// planned reads a plan, as `show -json` has it, and returns the addresses of the resources that applying it creates. Of a large plan it
// returns the first ones, and how many there are beside, which no state ever names. It passes over all values: they may be secret, and a
// plan has several copies of the whole state.
func planned(plan io.Reader) (creates []string, err error) {
	d := json.NewDecoder(plan)
	if err := begins(d, '{'); err != nil {
		return nil, err
	}
	size, more := 0, 0
	for d.More() {
		key, err := d.Token()
		if err != nil {
			return nil, xerrors.Errorf("read plan: %w", err)
		}
		if key != "resource_changes" {
			if err := skip(d); err != nil {
				return nil, err
			}
			continue
		}
		if err := begins(d, '['); err != nil {
			return nil, err
		}
		for d.More() {
			address, err := created(d)
			switch size += len(address); {
			case err != nil:
				return nil, err
			case address == "":
			case len(creates) == maxCreates || size > maxCreatesBytes:
				more++
			default:
				creates = append(creates, address)
			}
		}
		if _, err := d.Token(); err != nil { // its end
			return nil, xerrors.Errorf("read plan: %w", err)
		}
	}
	if _, err := d.Token(); err != nil { // else it was cut off
		return nil, xerrors.Errorf("read plan: %w", err)
	}
	if more > 0 {
		creates = append(creates, fmt.Sprintf("%d more", more))
	}
	return creates, nil
}

// created reads a change, and returns the address of what it creates; empty: nothing.
func created(d *json.Decoder) (string, error) {
	var is struct {
		Address string `json:"address"`
		Mode    string `json:"mode"`
		Change  struct {
			Actions []string `json:"actions"`
		} `json:"change"`
	}
	if err := d.Decode(&is); err != nil {
		return "", xerrors.Errorf("read plan: %w", err)
	}
	switch {
	case is.Mode != "managed" || !slices.Contains(is.Change.Actions, "create"):
		return "", nil
	case len(is.Change.Actions) > 1:
		return is.Address + replacing, nil
	}
	return is.Address, nil
}

func begins(d *json.Decoder, with json.Delim) error {
	t, err := d.Token()
	if err == nil && t != with {
		err = xerrors.Errorf("%v is no %v", t, with)
	}
	if err != nil {
		return xerrors.Errorf("read plan: %w", err)
	}
	return nil
}

// skip reads past a value, without having it in memory at once.
func skip(d *json.Decoder) error {
	for depth := 0; ; {
		t, err := d.Token()
		if err != nil {
			return xerrors.Errorf("read plan: %w", err)
		}
		switch t {
		case json.Delim('{'), json.Delim('['):
			depth++
		case json.Delim('}'), json.Delim(']'):
			depth--
		}
		if depth == 0 {
			return nil
		}
	}
}
