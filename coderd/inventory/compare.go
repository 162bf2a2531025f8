package inventory

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/prewarm-dev/prewarm/coderd/lists"
	"github.com/prewarm-dev/prewarm/coderd/provider"
	"github.com/prewarm-dev/prewarm/database"
	"github.com/prewarm-dev/prewarm/database/inventorydb"
)

// Verdict is what comes of holding a resource and a workspace side by side; doc.go says what follows from each.
type Verdict string

const (
	OK             Verdict = "ok"
	Making         Verdict = "making" // its job sees to it
	Going          Verdict = "going"
	Adopt          Verdict = "adopt"
	Orphan         Verdict = "orphan"
	Unknown        Verdict = "unknown"
	Missing        Verdict = "missing"
	Gone           Verdict = "gone"
	ClaimedMissing Verdict = "claimed-missing"
	Contradiction  Verdict = "contradiction"
	Failed         Verdict = "failed"
	Stopped        Verdict = "stopped"
	Vanished       Verdict = "vanished"
	Unreadable     Verdict = "unreadable"
	Drifted        Verdict = "drifted"
)

// Amiss says whether it is a discrepancy: kept as a finding.
func (v Verdict) Amiss() bool { return v != OK && v != Making && v != Going && v != Gone }

// alarms says whether the breaker counts it. What was looked for, of one workspace after the other, is no sudden mass.
func (v Verdict) alarms() bool { return v.Amiss() && v != Drifted }

// kept says whether inventories must agree on it before anything is done: it is kept as a finding.
func (v Verdict) kept() bool { return v.Amiss() || v == Gone }

// Workspace is the database's side. Making: something is being made of it, and it may be there or not. Stuck: its deletion
// has failed and is not being tried right now.
type Workspace = inventorydb.InventoryRowsRow

// Span is a time in which replicas were at work on this database.
type Span struct{ From, To time.Time }

// Sides is one inventory, but for the workspaces, which come one by one. Whether a time is before another is asked of the
// database's clock, but for when a resource was made.
type Sides struct {
	Provider     string
	Site         string // empty where the provider has none
	Installation uuid.UUID
	ListedAt     time.Time // when the listing began
	Grace        time.Duration
	Resources    []provider.Instance
	AtWork       []Span
	// Unheard are machines that did not answer, by their id: what is on them is neither there nor absent (S2).
	Unheard map[string]error
	Drift   bool // somebody looks for it: what was found counts
}

// Entry is one resource, one workspace, or both, with the verdict.
type Entry struct {
	Verdict   Verdict
	Resource  *provider.Instance // nil: there is none
	Workspace *Workspace         // nil: there is none
	Detail    string             // for people
	Nothing   bool               // the provider lists nothing with the workspace's tags, whatever it is called
}

func entry(v Verdict, r *provider.Instance, w *Workspace, detail string) Entry {
	return Entry{Verdict: v, Resource: r, Workspace: w, Detail: detail}
}

// again says whether a workspace that was gone is there.
func (e *Entry) again() bool {
	return e.Resource != nil && e.Workspace != nil && e.Workspace.GoneAt != nil && e.Verdict != Orphan && e.Verdict != Unknown
}

// Subject tells entries apart: by the workspace, and where the resource is not the workspace's own by that as well.
func (e Entry) Subject() string {
	switch {
	case e.Resource == nil:
		return e.Workspace.ID.String()
	case e.Workspace != nil && e.Verdict != Orphan && e.Verdict != Unknown:
		return e.Workspace.ID.String()
	}
	return e.Resource.Tags.WorkspaceID.String() + " " + e.Resource.Name + " " + e.Resource.ProviderID
}

// WorkspaceID is the workspace's, or what the resource says it is.
func (e Entry) WorkspaceID() uuid.UUID {
	if e.Workspace != nil {
		return e.Workspace.ID
	}
	return e.Resource.Tags.WorkspaceID
}

// Comparison holds a listing against workspaces as these come, so that a large fleet's rows need not be held all at once.
type Comparison struct {
	sides Sides
	rest  []*provider.Instance // of those that are ours what no verdict was given on yet, by workspace
	tell  func(Entry)
}

// Compare gives a verdict on every resource that carries the installation's tag and is not another provider's, and on
// every workspace that should have one: tell gets the entries, in the order of workspace ids. Workspaces are to be those of
// the provider and site and all whose resources were listed, as read after the listing: each given to Workspace, in the
// order of their ids, and then End.
func Compare(s Sides, tell func(Entry)) *Comparison {
	c := &Comparison{sides: s, tell: tell, rest: make([]*provider.Instance, 0, len(s.Resources))}
	for i := range s.Resources {
		if s.Resources[i].Tags.Installation == s.Installation { // never touch what is not tagged as ours (S6)
			c.rest = append(c.rest, &s.Resources[i])
		}
	}
	slices.SortFunc(c.rest, func(a, b *provider.Instance) int { return byID(a.Tags.WorkspaceID, b.Tags.WorkspaceID) })
	return c
}

func byID(a, b uuid.UUID) int { return bytes.Compare(a[:], b[:]) }

// Workspace is the next one.
func (c *Comparison) Workspace(w *Workspace) {
	for len(c.rest) > 0 && byID(c.rest[0].Tags.WorkspaceID, w.ID) < 0 {
		c.judge(nil, c.take(c.rest[0].Tags.WorkspaceID))
	}
	if found := c.take(w.ID); len(found) > 0 || c.sides.here(w) {
		c.judge(w, found)
	}
}

// End says that there are no more.
func (c *Comparison) End() {
	for len(c.rest) > 0 {
		c.judge(nil, c.take(c.rest[0].Tags.WorkspaceID))
	}
}

// take is what was found of a workspace.
func (c *Comparison) take(id uuid.UUID) (found []*provider.Instance) {
	n := slices.IndexFunc(c.rest, func(r *provider.Instance) bool { return r.Tags.WorkspaceID != id })
	if n < 0 {
		n = len(c.rest)
	}
	found, c.rest = c.rest[:n], c.rest[n:]
	return found
}

func (c *Comparison) judge(w *Workspace, found []*provider.Instance) {
	for _, e := range c.sides.judge(w, found) {
		c.tell(e)
	}
}

// here says whether a workspace, if it has a resource, has it at this provider and site.
func (s *Sides) here(w *Workspace) bool {
	return w.Provider == s.Provider && w.State != database.WorkspaceStateDeleted && (w.Site == s.Site || w.Site == "" || s.Site == "")
}

// judge gives verdicts on what there is of one workspace.
func (s *Sides) judge(w *Workspace, found []*provider.Instance) []Entry {
	slices.SortFunc(found, func(a, b *provider.Instance) int {
		return cmp.Or(strings.Compare(a.Name, b.Name), strings.Compare(a.ProviderID, b.ProviderID),
			cmp.Compare(a.Tags.Incarnation, b.Tags.Incarnation), cmp.Compare(a.Status, b.Status))
	})
	switch {
	case w == nil:
		return lists.Of(found, func(r *provider.Instance) Entry { return s.unmatched(r) })
	case w.State == database.WorkspaceStateDeleted:
		return lists.Of(found, func(r *provider.Instance) Entry { return s.leftOver(w, r) })
	case w.Provider != s.Provider:
		return nil // two providers that look at the same place: the other's inventory sees to it
	case !s.here(w):
		return lists.Of(found, func(r *provider.Instance) Entry {
			return entry(Orphan, r, w, "its workspace was begun again at another site")
		})
	}
	own := -1
	for i, r := range found {
		if isOwn(w, r) && (own < 0 || r.ProviderID == w.ProviderID) {
			own = i
		}
	}
	if own < 0 {
		entries := lists.Of(found, func(r *provider.Instance) Entry {
			if named(w, r) {
				return entry(Unknown, r, w, fmt.Sprintf("it has the name and tags of workspace %s, and is not what was made for it", w.Name))
			}
			return entry(Unknown, r, w, fmt.Sprintf("it has the tags of workspace %s, and neither its name nor its id", w.Name))
		})
		absent := s.absent(w)
		if absent.Nothing = len(found) == 0; !absent.Nothing && absent.Verdict == Gone {
			absent.Verdict = OK // what is there may be of it
		}
		return append(entries, absent)
	}
	entries := []Entry{s.present(w, found[own])}
	for i, r := range found {
		switch {
		case i == own || r.ProviderID == found[own].ProviderID: // some list one twice, such as at the seam of two pages
		case w.ProviderID == "" || found[own].ProviderID != w.ProviderID:
			entries = append(entries, entry(Unknown, r, w, "one of several resources of a workspace whose own is not known"))
			if entries[0].Verdict == OK || entries[0].Verdict == Adopt {
				entries[0].Verdict, entries[0].Detail = Contradiction, "it has several resources, and which is its own is not known"
			}
		case !named(w, r):
			entries = append(entries, entry(Unknown, r, w, fmt.Sprintf("it has the tags of workspace %s, and another name", w.Name)))
		default:
			entries = append(entries, entry(Orphan, r, w, "its workspace has another resource"))
		}
	}
	if entries[0].Verdict == Making { // which is its own is about to be decided
		return entries[:1]
	}
	return entries
}

// isOwn says whether a resource with a workspace's tags is what the row means: by the recorded id, or by its name. Not
// every provider says the same id when it creates and when it lists, so that another id alone proves nothing, but where the
// provider can tell (such as of a container that somebody has made anew with the labels of one that was removed).
func isOwn(w *Workspace, r *provider.Instance) bool {
	if w.ProviderID != "" && r.KnownAs != nil && !w.Making {
		return slices.Contains(r.KnownAs, w.ProviderID)
	}
	return named(w, r)
}

// named says whether it has the workspace's name, or the recorded id: it may be renamed.
func named(w *Workspace, r *provider.Instance) bool {
	return r.Name == w.Name || w.ProviderID != "" && r.ProviderID == w.ProviderID
}

// checkFor is how long a check of a provider may take. What it made and is still there then, such as of a server that was
// killed, is looked at like anything else.
const checkFor = 3 * time.Hour

// unmatched: a resource with our tag and no row. Rows are made before resources and outlive them, so it is an orphan,
// unless it was made by a history that this database does not have: that of the time after a backup that was put back.
func (s *Sides) unmatched(r *provider.Instance) Entry {
	at := r.CreatedAt
	if at.IsZero() {
		at = madeAt(r.Tags.WorkspaceID)
	}
	switch {
	case strings.HasPrefix(r.Name, provider.CheckPrefix) && at.Add(checkFor).After(s.ListedAt):
		return entry(Making, r, nil, "made by a check of the provider, which deletes it")
	case at.IsZero():
		return entry(Unknown, r, nil, "no row has it, and when it was made is not known")
	case !slices.ContainsFunc(s.AtWork, func(t Span) bool { return !at.Before(t.From) && !at.After(t.To) }):
		return entry(Unknown, r, nil, "no row has it, and it was made when nobody was at work on this database")
	}
	return entry(Orphan, r, nil, "no row has it")
}

// madeAt is when an id was made, where it says so (UUID version 7).
func madeAt(id uuid.UUID) time.Time {
	if id.Version() != 7 {
		return time.Time{}
	}
	sec, nsec := id.Time().UnixTime()
	return time.Unix(sec, nsec)
}

// leftOver: a resource of a deleted workspace. A listing that began before the deletion ended may have it for that reason.
func (s *Sides) leftOver(w *Workspace, r *provider.Instance) Entry {
	if w.DeletedAt != nil && w.DeletedAt.Add(s.Grace).After(s.ListedAt) {
		return entry(Going, r, w, "its workspace was just deleted")
	}
	return entry(Orphan, r, w, "its workspace is deleted")
}

// absent: a workspace of which the provider has nothing.
func (s *Sides) absent(w *Workspace) Entry {
	e := Entry{Verdict: OK, Workspace: w}
	unheard := s.Unheard[w.ProviderID]
	switch {
	case w.Making || w.State == database.WorkspaceStateProvisioning:
		e.Verdict = Making
	case unheard != nil && w.ProviderID != "":
		e.Detail = "its machine did not answer: " + unheard.Error()
	case !w.StateAt.Before(s.ListedAt): // it may have been made since
		e.Detail = "it came to its state after the listing began"
	case w.State == database.WorkspaceStateClaimed:
		e.Verdict, e.Detail = ClaimedMissing, "the provider no longer has it"
	case w.State == database.WorkspaceStateQuarantined:
		e.Detail = "quarantined, and nothing is left at the provider"
		if w.GoneAt == nil && w.Site == s.Site && len(s.Unheard) == 0 {
			e.Verdict = Gone
		}
	case w.State == database.WorkspaceStateDraining:
		e.Verdict = Going
	case w.State == database.WorkspaceStateDeleting && w.Stuck:
		e.Verdict, e.Detail = Vanished, "nothing is left at the provider, though deleting it fails"
	case w.State == database.WorkspaceStateDeleting:
		e.Verdict = Going
	default:
		e.Verdict, e.Detail = Missing, "the provider does not have it"
	}
	return e
}

// present: a workspace with its resource.
func (s *Sides) present(w *Workspace, r *provider.Instance) Entry {
	e := Entry{Verdict: OK, Resource: r, Workspace: w}
	settled := w.StateAt.Before(s.ListedAt)
	pooled := w.State == database.WorkspaceStateReady || w.State == database.WorkspaceStateStandby
	switch {
	case w.Making || w.State == database.WorkspaceStateProvisioning:
		e.Verdict = Making
	case w.State == database.WorkspaceStateDraining || w.State == database.WorkspaceStateDeleting:
		e.Verdict = Going
	case !settled:
		e.Detail = "it came to its state after the listing began"
	case !known(r.Status):
		e.Verdict = Unreadable
		e.Detail = fmt.Sprintf("resource %s at %s is in state %q, which is none", or(r.ProviderID, r.Name), address(r), r.Status)
	case r.Tags.Incarnation != w.Incarnation && w.State != database.WorkspaceStateQuarantined:
		e.Verdict = Contradiction
		e.Detail = fmt.Sprintf("it is in incarnation %d, and its resource in %d", w.Incarnation, r.Tags.Incarnation)
	case w.ProviderID == "" && r.ProviderID != "":
		e.Verdict, e.Detail = Adopt, "it was made, and that was never recorded"
	case w.State == database.WorkspaceStateClaimed && r.Status == provider.StatusError && r.Lost:
		e.Verdict, e.Detail = ClaimedMissing, or("the provider takes it away: "+r.Fault, "the provider takes it away")
	case pooled && r.Status == provider.StatusError:
		e.Verdict, e.Detail = Failed, or("the provider reports an error: "+r.Fault, "the provider reports an error")
	case w.State == database.WorkspaceStateReady && r.Status == provider.StatusStopped:
		e.Verdict, e.Detail = Stopped, "it has stopped at the provider"
	case s.Drift && w.Drifted > 0: // which is for who may enter it
		e.Verdict, e.Detail = Drifted, fmt.Sprintf("resources that are not as its state says: %d", w.Drifted)
	}
	return e
}

// known says whether a status is one of provider's. What a provider does not know of a resource is for the database to
// say: it is used if there is a row (S2).
func known(status provider.Status) bool {
	switch status {
	case provider.StatusRunning, provider.StatusStopped, provider.StatusError, provider.StatusUnknown, "":
		return true
	}
	return false
}

func or(a, b string) string { return cmp.Or(strings.TrimSuffix(a, ": "), b) }

// address is where a resource is reached, for people.
func address(r *provider.Instance) string {
	if len(r.Addresses) == 0 {
		return "no address"
	}
	return r.Addresses[0].Address
}
