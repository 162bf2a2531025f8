package sim

import (
	"bufio"
	"bytes"
	"cmp"
	"crypto/rand"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/google/uuid"
	"golang.org/x/xerrors"

	"github.com/prewarm-dev/prewarm/coderd/provider"
)

// Event is one thing that happened to a resource.
type Event struct {
	Deleted     bool      `json:"deleted,omitempty"` // else it was created
	ProviderID  string    `json:"provider_id"`
	Name        string    `json:"name"`
	WorkspaceID uuid.UUID `json:"workspace_id"`
	Incarnation int32     `json:"incarnation"`
}

// store is where the cloud keeps its resources. All methods may be called at once, from several processes too.
type store interface {
	// insert adds r unless its place is taken, and returns what has the place now.
	insert(r Resource) (Resource, error)
	// get returns fs.ErrNotExist if there is no resource at that place, and errUnreadable if nobody can say.
	get(place string) (Resource, error)
	// remove removes r, if it is still there.
	remove(r Resource) error
	// setStopped says whether r is stopped; provider.ErrNotFound if it is not there any more.
	setStopped(r Resource, stopped bool) error
	// each gives all there are to f, in no order, which must not call the store.
	each(f func(Resource)) error
	history() ([]Event, error)
}

// place is where a resource is: at its name, or where machines exist beforehand at its machine. Only one can be there.
func (r Resource) place() string {
	return cmp.Or(r.Machine, r.Name)
}

var errUnreadable = errors.New("what is there cannot be read")

func event(r Resource, deleted bool) Event {
	return Event{
		Deleted: deleted, ProviderID: r.ProviderID, Name: r.Name,
		WorkspaceID: r.Tags.WorkspaceID, Incarnation: r.Tags.Incarnation,
	}
}

// memoryStore lives as long as its Provider.
type memoryStore struct {
	mu        sync.RWMutex
	resources map[string]Resource
	events    []Event
}

func (s *memoryStore) insert(r Resource) (Resource, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if there, ok := s.resources[r.place()]; ok {
		return there, nil
	}
	s.resources[r.place()] = r
	s.events = append(s.events, event(r, false))
	return r, nil
}

func (s *memoryStore) get(place string) (Resource, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	r, ok := s.resources[place]
	if !ok {
		return r, fs.ErrNotExist
	}
	return r, nil
}

func (s *memoryStore) remove(r Resource) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.resources[r.place()].ProviderID == r.ProviderID {
		s.events = append(s.events, event(r, true))
		delete(s.resources, r.place())
	}
	return nil
}

func (s *memoryStore) setStopped(r Resource, stopped bool) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	there := s.resources[r.place()]
	if there.ProviderID != r.ProviderID {
		return provider.ErrNotFound
	}
	there.Stopped = stopped
	s.resources[r.place()] = there
	return nil
}

func (s *memoryStore) each(f func(Resource)) error {
	s.mu.RLock()
	defer s.mu.RUnlock()
	for _, r := range s.resources {
		f(r)
	}
	return nil
}

func (s *memoryStore) history() ([]Event, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return append([]Event(nil), s.events...), nil
}

// fileStore keeps a file for each resource and a journal of events, for several processes to share. Nothing is synced:
// a cloud that is simulated need not survive the machine.
//
// The journal has a creation after it happened and a deletion before it happens, so two resources that never lived at
// one time never look as if they had.
type fileStore struct {
	root string
	most int64 // bytes of the journal, after which another begins; the one before it is kept
}

const (
	mostJournal = 256 << 20 // of more than a million events, so that no test comes to it

	suffix    = ".json"
	someNames = 1000 // read at a time
)

func openFileStore(root string) (*fileStore, error) {
	s := &fileStore{root: root, most: mostJournal}
	for _, d := range []string{s.path("resources"), s.path("new"), s.path("stopped")} {
		if err := os.MkdirAll(d, 0o700); err != nil {
			return nil, xerrors.Errorf("open store: %w", err)
		}
	}
	return s, nil
}

func (s *fileStore) path(elem ...string) string {
	return filepath.Join(append([]string{s.root}, elem...)...)
}

func (s *fileStore) file(place string) string { return s.path("resources", place+suffix) }

func (s *fileStore) insert(r Resource) (Resource, error) {
	content, err := json.Marshal(r)
	if err != nil {
		return r, xerrors.Errorf("insert resource: %w", err)
	}
	// Written under another name and linked, so that it is whole when it appears, and appears for one only.
	fresh := s.path("new", rand.Text())
	if err := os.WriteFile(fresh, content, 0o600); err != nil {
		return r, xerrors.Errorf("insert resource: %w", err)
	}
	defer os.Remove(fresh) //nolint:errcheck // a leftover there harms nobody
	for {
		err := os.Link(fresh, s.file(r.place()))
		if err == nil {
			return r, s.journal(event(r, false))
		}
		if !errors.Is(err, fs.ErrExist) {
			return r, xerrors.Errorf("insert resource: %w", err)
		}
		if there, err := s.get(r.place()); !errors.Is(err, fs.ErrNotExist) {
			return there, err
		}
	}
}

func (s *fileStore) get(place string) (Resource, error) {
	var r Resource
	content, err := os.ReadFile(s.file(place))
	if err != nil {
		return r, xerrors.Errorf("read resource: %w", err)
	}
	if json.Unmarshal(content, &r) != nil || r.place() != place {
		return r, xerrors.Errorf("read resource %s: %w", place, errUnreadable)
	}
	_, err = os.Stat(s.path("stopped", r.ProviderID))
	r.Stopped = err == nil
	return r, nil
}

func (s *fileStore) remove(r Resource) error {
	// Moved away first: of several at once, one has it.
	gone := s.path("new", rand.Text())
	if there, err := s.has(r); !there || err != nil {
		return err
	}
	if err := s.journal(event(r, true)); err != nil {
		return err
	}
	err := os.Rename(s.file(r.place()), gone)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return xerrors.Errorf("remove resource: %w", err)
	}
	if err := os.Remove(s.path("stopped", r.ProviderID)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return xerrors.Errorf("remove resource: %w", err)
	}
	return os.Remove(gone)
}

// has says whether r is there, and not a later one of its name.
func (s *fileStore) has(r Resource) (bool, error) {
	there, err := s.get(r.place())
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil && there.ProviderID == r.ProviderID, err
}

// setStopped makes or removes a mark beside the resource, by an id that no other ever has: so it never brings back one that
// is removed at the same time.
func (s *fileStore) setStopped(r Resource, stopped bool) error {
	if there, err := s.has(r); err != nil {
		return err
	} else if !there {
		return provider.ErrNotFound
	}
	mark := s.path("stopped", r.ProviderID)
	var err error
	if stopped {
		err = os.WriteFile(mark, nil, 0o600)
	} else {
		err = os.Remove(mark)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return xerrors.Errorf("mark resource: %w", err)
	}
	return nil
}

func (s *fileStore) each(f func(Resource)) error {
	folder, err := os.Open(s.path("resources"))
	if err != nil {
		return xerrors.Errorf("list resources: %w", err)
	}
	defer folder.Close()
	for {
		names, err := folder.Readdirnames(someNames)
		for _, name := range names {
			r, err := s.get(strings.TrimSuffix(name, suffix))
			if errors.Is(err, fs.ErrNotExist) {
				continue
			}
			if err != nil {
				return err
			}
			f(r)
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return xerrors.Errorf("list resources: %w", err)
		}
	}
}

// journal appends one line. Appends of this size are whole, whoever else appends.
func (s *fileStore) journal(e Event) error {
	line, err := json.Marshal(e)
	if err != nil {
		return xerrors.Errorf("write journal: %w", err)
	}
	f, err := os.OpenFile(s.path("journal"), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return xerrors.Errorf("write journal: %w", err)
	}
	_, err = f.Write(append(line, '\n'))
	info, statErr := f.Stat()
	err = cmp.Or(err, f.Close())
	if err == nil && statErr == nil && info.Size() > s.most {
		s.turn(info)
	}
	return err
}

// turn begins a new journal, unless another process has.
func (s *fileStore) turn(full fs.FileInfo) {
	if now, err := os.Stat(s.path("journal")); err == nil && os.SameFile(now, full) {
		_ = os.Rename(s.path("journal"), s.path("journal.before")) // else the next to write does it
	}
}

func (s *fileStore) history() ([]Event, error) {
	var content []byte
	for _, name := range []string{"journal.before", "journal"} {
		part, err := os.ReadFile(s.path(name))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, xerrors.Errorf("read journal: %w", err)
		}
		content = append(content, part...)
	}
	var events []Event
	for lines := bufio.NewScanner(bytes.NewReader(content)); lines.Scan(); {
		var e Event
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			return nil, xerrors.Errorf("read journal: %w", err)
		}
		events = append(events, e)
	}
	return events, nil
}
