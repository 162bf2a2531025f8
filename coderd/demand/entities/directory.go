package entities

import (
	"context"
	"sync"
	"time"

	"github.com/coder/quartz"
	"github.com/google/uuid"
	"golang.org/x/xerrors"

	"github.com/prewarm-dev/prewarm/coderd/demand/forge"
	"github.com/prewarm-dev/prewarm/coderd/seal"
	"github.com/prewarm-dev/prewarm/database"
	"github.com/prewarm-dev/prewarm/database/entitiesdb"
)

// fresh is how long what was read is good for (P1).
const fresh = time.Second

// Entity is what package forge calls so.
type Entity = forge.Entity

// ErrNoEntity: no entity has that name or id, or it is deleted.
var ErrNoEntity = forge.ErrNoEntity

// Directory knows all entities, at most a second late. It is safe for concurrent use.
type Directory struct {
	store *database.Store
	keys  *seal.Keys
	kinds map[string]forge.Kind
	clock quartz.Clock

	mu      sync.Mutex // held while reading
	readAt  time.Time
	entries map[uuid.UUID]*entry
}

// entry is an entity with its client, made when it is first needed.
type entry struct {
	Entity
	row    entitiesdb.DirectoryEntitiesRow
	client forge.Forge
}

// NewDirectory returns one that has read nothing yet. Kinds are the kinds of forges by their names.
func NewDirectory(store *database.Store, keys *seal.Keys, kinds map[string]forge.Kind, clock quartz.Clock) *Directory {
	return &Directory{store: store, keys: keys, kinds: kinds, clock: clock}
}

// ByName finds an entity; ErrNoEntity.
func (d *Directory) ByName(ctx context.Context, name string) (Entity, error) {
	return d.entity(ctx, func(e *entry) bool { return e.Name == name })
}

// ByID finds an entity; ErrNoEntity.
func (d *Directory) ByID(ctx context.Context, id uuid.UUID) (Entity, error) {
	return d.entity(ctx, func(e *entry) bool { return e.ID == id })
}

func (d *Directory) entity(ctx context.Context, is func(*entry) bool) (Entity, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	e, err := d.find(ctx, is)
	if err != nil {
		return Entity{}, err
	}
	return e.Entity, nil
}

// find is called with the lock.
func (d *Directory) find(ctx context.Context, is func(*entry) bool) (*entry, error) {
	if err := d.read(ctx); err != nil {
		return nil, err
	}
	for _, e := range d.entries {
		if is(e) {
			return e, nil
		}
	}
	return nil, ErrNoEntity
}

// Forge is the client of an entity. It is the same one until the credential changes, so that what it has learned of rate
// limits is kept.
func (d *Directory) Forge(ctx context.Context, id uuid.UUID) (forge.Forge, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	e, err := d.find(ctx, func(e *entry) bool { return e.ID == id })
	if err != nil {
		return nil, err
	}
	if e.client == nil {
		client, err := d.connect(e)
		if err != nil {
			return nil, xerrors.Errorf("connect to forge %s: %w", e.Name, err)
		}
		e.client = client
	}
	return e.client, nil
}

// Forget has everything read again: this replica changed something.
func (d *Directory) Forget() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.readAt = time.Time{}
}

// connect makes a client. It asks the forge nothing.
func (d *Directory) connect(e *entry) (forge.Forge, error) {
	if e.Kind == nil {
		return nil, xerrors.Errorf("this replica does not know forges of kind %s", e.KindName)
	}
	secret, err := d.keys.Open(e.row.Secret, e.row.CredentialSealedBy, aboutCredential(e.row.CredentialID))
	if err != nil {
		return nil, err
	}
	c := forge.Connection{
		URL: e.ForgeURL, Scope: e.Scope, Path: e.Path, CABundle: []byte(e.row.CaBundle),
		Now: func() time.Time { return d.clock.Now("entities", "forge") },
	}
	if e.row.Auth == database.ForgeAuthApp && e.row.AppID != nil && e.row.InstallationID != nil {
		c.App = &forge.App{ID: *e.row.AppID, InstallationID: *e.row.InstallationID, PrivateKey: secret}
	} else {
		c.Token = string(secret)
	}
	return e.Kind.Connect(c)
}

// read reads the rows if it is time to. Called with the lock.
func (d *Directory) read(ctx context.Context) error {
	now := d.clock.Now("entities", "read")
	if d.entries != nil && now.Sub(d.readAt) < fresh {
		return nil
	}
	rows, err := entitiesdb.New(d.store).DirectoryEntities(ctx)
	if err != nil {
		return xerrors.Errorf("read entities of forges: %w", err)
	}
	entries := make(map[uuid.UUID]*entry, len(rows))
	for _, row := range rows {
		e := d.entryOf(row)
		if old, ok := d.entries[row.ID]; ok && sameCredential(old.row, row) {
			e.client = old.client
		}
		entries[row.ID] = e
	}
	d.entries, d.readAt = entries, now
	return nil
}

func sameCredential(a, b entitiesdb.DirectoryEntitiesRow) bool {
	return a.CredentialID == b.CredentialID && a.CredentialUpdatedAt.Equal(b.CredentialUpdatedAt)
}

func (d *Directory) entryOf(row entitiesdb.DirectoryEntitiesRow) *entry {
	e := &entry{row: row, Entity: Entity{
		ID: row.ID, OrganizationID: row.OrganizationID, Name: row.Name, Kind: d.kinds[string(row.Kind)],
		KindName: string(row.Kind), ForgeURL: row.Url, Scope: forge.Scope(row.Scope), Path: row.Path, Balance: row.Balance,
		Stopped: row.StoppedAt != nil, HookID: database.OrZero(row.HookID),
	}}
	sealed := [][]byte{row.WebhookSecret}
	if row.Overlaps {
		sealed = append(sealed, row.WebhookSecretBefore)
	}
	for _, s := range sealed {
		secret, err := d.keys.Open(s, row.SealedBy, aboutWebhook(row.ID))
		if err != nil {
			e.Err = xerrors.Errorf("open webhook secret of %s: %w", row.Name, err)
			e.Secrets = nil
			break
		}
		e.Secrets = append(e.Secrets, string(secret))
	}
	return e
}

// What a secret is sealed for, so that one does not open in another's place.
func aboutCredential(id uuid.UUID) string { return "forge_credentials/" + id.String() + "/secret" }

func aboutWebhook(id uuid.UUID) string { return "forge_entities/" + id.String() + "/webhook_secret" }
