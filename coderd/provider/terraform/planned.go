package terraform

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	"golang.org/x/xerrors"
)

const (
	maxCreates      = 10_000  // addresses of a plan that are kept
	maxCreatesBytes = 1 << 20 // of them together
	// replacing is said of what a plan creates in place of another resource of the same address. A state that names the address may
	// mean the one before, so that only the apply's end settles it: no address ends so.
	replacing = " (its replacement)"
)

// Planned is what applying a plan does, as far as it has to be known before. Of many addresses it has the first ones, and how many
// there are beside, which no state ever names. What is of the provider `coder` is not among them: nothing is made of it.
type Planned struct {
	Creates []string // addresses of resources, with those that replace others
	Removes []string // addresses of resources, with those that are replaced
}

// addresses are some of resources: of many the first ones.
type addresses struct {
	all        []string
	size, more int
}

func (a *addresses) add(address string) {
	if a.size += len(address); len(a.all) == maxCreates || a.size > maxCreatesBytes {
		a.more++
		return
	}
	a.all = append(a.all, address)
}

// list ends with how many there are beside.
func (a *addresses) list() []string {
	if a.more == 0 {
		return a.all
	}
	return append(slices.Clip(a.all), fmt.Sprintf("%d more", a.more))
}

// planned reads a plan, as `show -json` has it. It passes over all values: they may be secret, and a plan has several copies of the
// whole state.
func planned(from io.Reader) (p Planned, err error) {
	var creates, removes addresses
	d := json.NewDecoder(from)
	if err := begins(d, '{'); err != nil {
		return p, err
	}
	for d.More() {
		key, err := d.Token()
		if err != nil {
			return p, xerrors.Errorf("read plan: %w", err)
		}
		if key != "resource_changes" {
			if err := skip(d); err != nil {
				return p, err
			}
			continue
		}
		if err := begins(d, '['); err != nil {
			return p, err
		}
		for d.More() {
			if err := change(d, &creates, &removes); err != nil {
				return p, err
			}
		}
		if _, err := d.Token(); err != nil { // its end
			return p, xerrors.Errorf("read plan: %w", err)
		}
	}
	if _, err := d.Token(); err != nil { // else it was cut off
		return p, xerrors.Errorf("read plan: %w", err)
	}
	return Planned{Creates: creates.list(), Removes: removes.list()}, nil
}

// change reads one, and adds its resource where that is created or removed.
func change(d *json.Decoder, created, removed *addresses) error {
	var is struct {
		Address string `json:"address"`
		Mode    string `json:"mode"`
		Of      string `json:"provider_name"` // its address
		Change  struct {
			Actions []string `json:"actions"`
		} `json:"change"`
	}
	if err := d.Decode(&is); err != nil {
		return xerrors.Errorf("read plan: %w", err)
	}
	if is.Mode != "managed" || strings.HasSuffix(is.Of, "/coder/coder") {
		return nil
	}
	removes := slices.Contains(is.Change.Actions, "delete")
	if removes {
		removed.add(is.Address)
	}
	if slices.Contains(is.Change.Actions, "create") {
		if removes {
			is.Address += replacing
		}
		created.add(is.Address)
	}
	return nil
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
