package provider

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"
)

// Reserver is a provider whose machines exist beforehand (S2, S4, S5). A workspace is made on a machine that is there and
// unused: whoever drives the provider reserves one, names it in CreateRequest.Machine, and gives it back when Delete has
// returned nil, which proves that nothing of the workspace is left on it.
//
// That two are never made on one machine does not rest on reservations: the machine itself says whose it is, and a create
// on one that is not free is ErrMachineTaken. Reservations only keep creates from meeting. A machine that says what nobody
// understands is possibly used: never unused, never touched (docs/decisions/0025).
type Reserver interface {
	// ListMachines asks every machine. One that can't be asked is an error of that machine alone; the error returned is
	// of the listing as a whole.
	ListMachines(ctx context.Context) ([]Machine, error)
}

// MachineState is what is known of a machine.
type MachineState string

// States of a machine. Only an unused one is reserved.
const (
	MachineUsed         MachineState = "used"
	MachineUnused       MachineState = "unused"
	MachinePossiblyUsed MachineState = "possibly_used" // nobody can say; Error says why
)

// Machine is one of a Reserver's. ID is opaque, and never that of another machine. Address is empty where there is none
// that could be used, which is no error.
type Machine struct {
	ID      string
	Address string
	State   MachineState
	// Error is with MachinePossiblyUsed; it names the machine and its address.
	Error string
	// Holder is what a used machine says it is used by, of whatever installation; zero where it does not say.
	Holder     Tags
	HolderName string
	SeenAt     time.Time // when it answered; zero: it did not
}

// PartialListing is the error of a List that is whole but for some machines: what it returned beside the error is there,
// and what was on Machines can't be known. It is never to be taken for absent.
type PartialListing struct {
	Machines map[string]error // why, by the machine's id
}

func (e *PartialListing) Error() string {
	for _, err := range e.Machines {
		if len(e.Machines) == 1 {
			return err.Error()
		}
		return fmt.Sprintf("%d machines did not answer, one of them: %v", len(e.Machines), err)
	}
	return "some machines did not answer"
}

// Partial splits the error of a List: missing is what it did not hear of, by machine; err is of the listing as a whole.
func Partial(listed error) (missing map[string]error, err error) {
	var partial *PartialListing
	if errors.As(listed, &partial) {
		return partial.Machines, nil
	}
	return nil, listed
}

// ErrMachineTaken: the machine that a create was to use is another workspace's, or was not reset after one. It stays
// untouched; a create on another machine may succeed.
var ErrMachineTaken = errors.New("the machine is not free")

// ErrNoMachine: the create names no machine, or one that the provider does not have.
var ErrNoMachine = errors.New("no such machine")

// TagsOf reads tags as a machine or a label may have them: each as a text. It is false if they are none.
func TagsOf(installation, workspaceID, incarnation string) (Tags, bool) {
	i, iErr := uuid.Parse(strings.TrimSpace(installation))
	w, wErr := uuid.Parse(strings.TrimSpace(workspaceID))
	n, nErr := strconv.ParseInt(incarnation, 10, 32)
	return Tags{Installation: i, WorkspaceID: w, Incarnation: int32(n)}, iErr == nil && wErr == nil && nErr == nil && w != uuid.Nil
}
