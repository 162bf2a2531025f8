// Package externaltest has what tests of the provider external run: a reference executable that speaks the GARM external
// provider protocol by the protocol's own library, and that can be told to misbehave as real ones do.
package externaltest

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"golang.org/x/xerrors"
)

// Config is the reference executable's configuration file.
type Config struct {
	Root     string `json:"root"`                // of its cloud, a directory
	Protocol string `json:"protocol,omitempty"`  // v0.1.0 makes it one that has never heard of v0.1.1
	CreateMS int    `json:"create_ms,omitempty"` // between the beginning and the end of a create
	Fault    Fault  `json:"fault,omitempty"`
	Password string `json:"password,omitempty"` // a secret that the fault Blabs tells
	Boots    bool   `json:"boots,omitempty"`    // its instances run the script of their first boot
	Busy     int    `json:"busy,omitempty"`     // how many deletes of each instance it refuses first, being busy
	// Machine is a program that is run with the file of an instance's whole user data as its argument, instead of that script:
	// what an instance is like.
	Machine string `json:"machine,omitempty"`
}

// Fault is a way in which real executables misbehave.
type Fault string

const (
	DuplicateIs1    Fault = "duplicate_is_1"    // creating what is there ends with 1, not with 31
	DuplicateIsMade Fault = "duplicate_is_made" // creating what is there makes another
	NamesAreLost    Fault = "names_are_lost"    // getting by name finds nothing, deleting by name does nothing
	NoVersion       Fault = "no_version"        // it does not know what GetVersion is
	MissingIs1      Fault = "missing_is_1"      // getting or deleting what is not there ends with 1, not with 30
	PendingStatus   Fault = "pending_status"    // its instances are in pending_create for ever
	ErrorStatus     Fault = "error_status"      // its instances are in error
	Panics          Fault = "panics"            // creates panic
	Blabs           Fault = "blabs"             // creates fail, and say everything there is to say
	Chatty          Fault = "chatty"            // every call writes megabytes to both outputs
	Floods          Fault = "floods"            // listings never end
	NotJSON         Fault = "not_json"          // answers are not JSON
	Renames         Fault = "renames"           // instances get other names than were asked for
	Hangs           Fault = "hangs"             // creates ignore SIGTERM and never end, nor does a child of theirs
	Escapes         Fault = "escapes"           // the same, with the child in a session of its own
	Broken          Fault = "broken"            // everything fails, as with credentials that have expired
	IgnoresScript   Fault = "ignores_script"    // it gives its instances no script at their first boot
	NoSchema        Fault = "no_schema"         // it has none, and says so with a failure
)

// Call is one run of the executable, as it records it in the file calls of its root.
type Call struct {
	At      time.Time       `json:"at"`
	Command string          `json:"command"`
	Env     []string        `json:"env"`
	Dir     string          `json:"dir"`
	Stdin   json.RawMessage `json:"stdin,omitempty"`
}

// Build builds the reference executable.
func Build(path string) error {
	out, err := exec.Command("go", "build", "-o", path,
		"github.com/prewarm-dev/prewarm/coderd/provider/external/externaltest/reference").CombinedOutput()
	if err != nil {
		return xerrors.Errorf("build reference executable: %w: %s", err, out)
	}
	return nil
}

// Write writes the configuration file and makes the root. What runs meanwhile reads the file before or this one, whole.
func (c Config) Write(path string) error {
	if err := os.MkdirAll(c.Root, 0o700); err != nil {
		return xerrors.Errorf("make root: %w", err)
	}
	raw, err := json.Marshal(c)
	if err != nil {
		return xerrors.Errorf("encode configuration: %w", err)
	}
	next := filepath.Clean(path) + ".next"
	if err := os.WriteFile(next, raw, 0o600); err != nil {
		return xerrors.Errorf("write configuration: %w", err)
	}
	if err := os.Rename(next, path); err != nil {
		return xerrors.Errorf("put configuration in place: %w", err)
	}
	return nil
}
