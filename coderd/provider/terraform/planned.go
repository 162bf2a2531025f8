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

// planned reads a plan, as `show -json` has it.
func planned(from io.Reader) (Planned, error) {
	var creates, removes addresses
	err := changes(from, func(list, address string, actions []string) {
		if list != listChanges {
			return
		}
		replaced := slices.Contains(actions, "delete")
		if replaced {
			removes.add(address)
		}
		if slices.Contains(actions, "create") {
			if replaced {
				address += replacing
			}
			creates.add(address)
		}
	})
	return Planned{Creates: creates.list(), Removes: removes.list()}, err
}

// drifted reads of a plan what is not as the state says, and what applying it would mend. So what a place changes by itself, or what the
// module says to ignore, is no drift.
func drifted(from io.Reader) ([]string, error) {
	var other addresses
	mended := map[string]bool{}
	err := changes(from, func(list, address string, actions []string) {
		switch {
		case list == listDrift && (slices.Contains(actions, "update") || slices.Contains(actions, "delete")):
			other.add(address)
		case list == listChanges && !slices.Contains(actions, "no-op"):
			mended[address] = true
		}
	})
	return slices.DeleteFunc(other.all, func(address string) bool { return !mended[address] }), err
}

// Lists of a plan.
const listChanges, listDrift = "resource_changes", "resource_drift"

// changes reads these lists of a plan. It passes over all values: they may be secret, and a plan has several copies of the whole state.
func changes(from io.Reader, tell func(list, address string, actions []string)) error {
	d := json.NewDecoder(from)
	if err := begins(d, '{'); err != nil {
		return err
	}
	for d.More() {
		key, err := d.Token()
		if err != nil {
			return xerrors.Errorf("read plan: %w", err)
		}
		list, _ := key.(string)
		if list != listChanges && list != listDrift {
			if err := skip(d); err != nil {
				return err
			}
			continue
		}
		if err := begins(d, '['); err != nil {
			return err
		}
		for d.More() {
			if err := change(d, func(address string, actions []string) { tell(list, address, actions) }); err != nil {
				return err
			}
		}
		if _, err := d.Token(); err != nil { // its end
			return xerrors.Errorf("read plan: %w", err)
		}
	}
	if _, err := d.Token(); err != nil { // else it was cut off
		return xerrors.Errorf("read plan: %w", err)
	}
	return nil
}

// change reads one entry, and hands it on if it is a managed resource. The provider `coder` makes nothing.
func change(d *json.Decoder, tell func(address string, actions []string)) error {
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
	if is.Mode == "managed" && !strings.HasSuffix(is.Of, "/coder/coder") {
		tell(is.Address, is.Change.Actions)
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
