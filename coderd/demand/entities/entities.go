package entities

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"strings"
	"time"

	"github.com/google/uuid"
	"golang.org/x/xerrors"

	"github.com/prewarm-dev/prewarm/coderd/auth"
	"github.com/prewarm-dev/prewarm/database"
	"github.com/prewarm-dev/prewarm/database/entitiesdb"
)

// overlapByDefault is how long a webhook secret stays good after it was changed.
const overlapByDefault = 24 * time.Hour

// Change is what is to be of an entity; of one that is there already, what is left empty stays.
type Change struct {
	Scope, Path   string
	Credential    string // its name
	Balance       string
	WebhookSecret string
	NewSecret     bool          // one made by chance, where WebhookSecret is empty
	Overlap       time.Duration // how long the secret before stays good; a day where 0
}

// Put makes or changes an entity. Made is its webhook secret where that was made by chance, to be shown this once. Errors for
// people are *auth.Refusal.
func (s *Service) Put(ctx context.Context, who auth.Identity, name string, c Change) (made string, err error) {
	if err := checkName(name); err != nil {
		return "", err
	}
	if c.WebhookSecret != "" {
		if err := checkSecret(c.WebhookSecret); err != nil {
			return "", err
		}
	}
	err = s.inTx(ctx, "put forge", func(ctx context.Context, db database.DBTX) error {
		made = ""
		old, err := entitiesdb.New(db).LockForgeEntity(ctx, entitiesdb.LockForgeEntityParams{OrganizationID: who.OrganizationID, Name: name})
		if err != nil && !database.NoRows(err) {
			return xerrors.Errorf("read forge: %w", err)
		}
		if isNew := err != nil; isNew || c.NewSecret && c.WebhookSecret == "" {
			if c.WebhookSecret == "" {
				made = newSecret()
			}
			if isNew {
				return s.insert(ctx, db, who, name, c, made+c.WebhookSecret)
			}
		}
		return s.update(ctx, db, who, old, c, made+c.WebhookSecret)
	})
	if database.IsUniqueViolation(err, "forge_entities_name") {
		return "", auth.Refuse(auth.ErrConflict, "there is a forge %s already, of another organization or since a moment ago", name)
	}
	return made, err
}

// Rotate gives an entity another secret, made by chance where c names none.
func (s *Service) Rotate(ctx context.Context, who auth.Identity, name string, c Change) (made string, err error) {
	c.NewSecret = true
	if _, err := s.find(ctx, s.Store, who, name); err != nil {
		return "", err
	}
	return s.Put(ctx, who, name, c)
}

func newSecret() string {
	b := make([]byte, 32)
	_, _ = rand.Read(b) // it never fails
	return hex.EncodeToString(b)
}

func (s *Service) insert(ctx context.Context, db database.DBTX, who auth.Identity, name string, c Change, secret string) error {
	q := entitiesdb.New(db)
	if c.Credential == "" {
		return auth.Refuse(auth.ErrInvalid, "there is no forge %q yet; for a new one say scope, path and credential", name)
	}
	credential, err := s.credential(ctx, db, who, c.Credential)
	if err != nil {
		return err
	}
	if c.Path == "" && c.Scope == "enterprise" && credential.Kind == database.ForgeKindGitea {
		c.Path = instance
	}
	if err := checkPath(string(credential.Kind), c.Scope, c.Path); err != nil {
		return err
	}
	c.Balance = cmp.Or(c.Balance, "pack")
	id := uuid.New()
	sealed, key, err := s.Keys.Seal([]byte(secret), aboutWebhook(id))
	if err != nil {
		return err
	}
	err = q.InsertForgeEntity(ctx, entitiesdb.InsertForgeEntityParams{
		ID: id, OrganizationID: who.OrganizationID, Name: name, Scope: database.ForgeScope(c.Scope), Path: c.Path,
		CredentialID: credential.ID, Balance: c.Balance, WebhookSecret: sealed, SealedBy: key,
	})
	if err != nil {
		return xerrors.Errorf("write forge: %w", err)
	}
	if err := q.InsertForgeStatus(ctx, id); err != nil {
		return xerrors.Errorf("write status of forge: %w", err)
	}
	return record(ctx, db, who, "forge.create", id, name, nil, map[string]any{
		"scope": c.Scope, "path": c.Path, "credential": credential.Name, "balance": c.Balance,
	}, "")
}

func (s *Service) update(
	ctx context.Context, db database.DBTX, who auth.Identity, row database.ForgeEntity, c Change, secret string,
) error {
	if c.Scope != "" && c.Scope != string(row.Scope) || c.Path != "" && c.Path != row.Path {
		return auth.Refuse(auth.ErrConflict, "forge %s is the %s %s, which cannot change: make another", row.Name, row.Scope, row.Path)
	}
	params := entitiesdb.UpdateForgeEntityParams{
		ID: row.ID, CredentialID: row.CredentialID, Balance: row.Balance, WebhookSecret: row.WebhookSecret,
		SealedBy: row.SealedBy, WebhookSecretBefore: row.WebhookSecretBefore, BeforeUntil: row.BeforeUntil,
	}
	before, after := map[string]any{"balance": row.Balance}, map[string]any{}
	if c.Balance != "" {
		params.Balance = c.Balance
	}
	after["balance"] = params.Balance
	if c.Credential != "" {
		credential, err := s.credential(ctx, db, who, c.Credential)
		if err != nil {
			return err
		}
		if err := checkPath(string(credential.Kind), string(row.Scope), row.Path); err != nil {
			return err
		}
		params.CredentialID = credential.ID
		after["credential"] = credential.Name
	}
	if secret != "" {
		if err := s.replaceSecret(row, secret, c.Overlap, &params); err != nil {
			return err
		}
		after["webhook_secret"] = "changed"
	}
	if err := entitiesdb.New(db).UpdateForgeEntity(ctx, params); err != nil {
		return xerrors.Errorf("write forge: %w", err)
	}
	if params.CredentialID != row.CredentialID {
		id := uuid.NullUUID{UUID: row.ID, Valid: true}
		if err := entitiesdb.New(db).EndForgeWaits(ctx, entitiesdb.EndForgeWaitsParams{EntityID: id}); err != nil {
			return xerrors.Errorf("end wait of forge: %w", err)
		}
	}
	return record(ctx, db, who, "forge.update", row.ID, row.Name, before, after, "")
}

// replaceSecret keeps the secret before good for a while. Both are sealed with one key.
func (s *Service) replaceSecret(
	row database.ForgeEntity, secret string, overlap time.Duration, params *entitiesdb.UpdateForgeEntityParams,
) error {
	old, err := s.Keys.Open(row.WebhookSecret, row.SealedBy, aboutWebhook(row.ID))
	if err != nil {
		return auth.Refuse(auth.ErrConflict, "the secret of now cannot be opened, to be kept for a while: %v", err)
	}
	if params.WebhookSecret, params.SealedBy, err = s.Keys.Seal([]byte(secret), aboutWebhook(row.ID)); err != nil {
		return err
	}
	if params.WebhookSecretBefore, _, err = s.Keys.Seal(old, aboutWebhook(row.ID)); err != nil {
		return err
	}
	overlap = cmp.Or(overlap, overlapByDefault)
	seconds := overlap.Seconds()
	params.OverlapS = &seconds
	return nil
}

// Stop has no new runners made for an entity, for its jobs or to be idle, and with drain its idle ones go (P1). With no reason it
// starts again. It returns the templates of its presets, which are to be looked at.
func (s *Service) Stop(ctx context.Context, who auth.Identity, name, reason string, drain bool) (affected []uuid.UUID, err error) {
	err = s.withEntity(ctx, who, name, "stop forge", func(db database.DBTX, row database.ForgeEntity) (err error) {
		stop := reason != ""
		if !stop && row.StoppedAt == nil {
			return nil // it runs
		}
		affected, err = entitiesdb.New(db).StopForgeEntity(ctx, entitiesdb.StopForgeEntityParams{
			ID: row.ID, Stopped: stop, Drain: drain, Reason: reason,
		})
		if err != nil {
			return xerrors.Errorf("write stop of forge: %w", err)
		}
		action := "forge.start"
		if stop {
			action = "forge.stop"
		}
		var after any
		if stop {
			after = map[string]any{"drain": drain}
		}
		return record(ctx, db, who, action, row.ID, name, nil, after, reason)
	})
	return affected, err
}

// Delete deletes an entity that no preset names and that has no runners.
func (s *Service) Delete(ctx context.Context, who auth.Identity, name string) error {
	return s.withEntity(ctx, who, name, "delete forge", func(db database.DBTX, row database.ForgeEntity) error {
		q := entitiesdb.New(db)
		users, err := q.ForgeEntityUsers(ctx, row.ID)
		switch {
		case err != nil:
			return xerrors.Errorf("find users of forge: %w", err)
		case len(users.Presets) > 0:
			return auth.Refuse(auth.ErrConflict, "forge %s is named by preset %s: apply these without it first", name, listed(users.Presets))
		case users.Runners > 0:
			return auth.Refuse(auth.ErrConflict, "forge %s has %d runners still: see `prewarm runner list --forge %s`", name,
				users.Runners, name)
		}
		if err := q.DeleteForgeEntity(ctx, row.ID); err != nil {
			return xerrors.Errorf("delete forge: %w", err)
		}
		return record(ctx, db, who, "forge.delete", row.ID, name, map[string]any{"scope": row.Scope, "path": row.Path}, nil, "")
	})
}

// SetHook stores which webhook Prewarm installed; 0: none. The action says what was done at the forge.
func (s *Service) SetHook(ctx context.Context, who auth.Identity, name, action string, hook int64) error {
	return s.withEntity(ctx, who, name, "store webhook", func(db database.DBTX, row database.ForgeEntity) error {
		id := database.OrNull(hook)
		if _, err := entitiesdb.New(db).SetForgeHook(ctx, entitiesdb.SetForgeHookParams{ID: row.ID, HookID: id}); err != nil {
			return xerrors.Errorf("store webhook: %w", err)
		}
		return record(ctx, db, who, action, row.ID, name, map[string]any{"hook_id": row.HookID}, map[string]any{"hook_id": id}, "")
	})
}

// Record writes into the audit log what was asked of a forge.
func (s *Service) Record(ctx context.Context, who auth.Identity, action string, e Entity) error {
	return record(ctx, s.Store, who, action, e.ID, e.Name, nil, nil, "")
}

// Find is an entity of one's organization. A *auth.Refusal where there is none.
func (s *Service) Find(ctx context.Context, who auth.Identity, name string) (Entity, error) {
	row, err := s.find(ctx, s.Store, who, name)
	if err != nil {
		return Entity{}, err
	}
	s.Directory.Forget()
	return s.Directory.ByID(ctx, row.ID)
}

func (s *Service) withEntity(
	ctx context.Context, who auth.Identity, name, label string, do func(db database.DBTX, row database.ForgeEntity) error,
) error {
	return s.inTx(ctx, label, func(ctx context.Context, db database.DBTX) error {
		row, err := s.find(ctx, db, who, name)
		if err != nil {
			return err
		}
		return do(db, row)
	})
}

func (*Service) find(ctx context.Context, db database.DBTX, who auth.Identity, name string) (database.ForgeEntity, error) {
	row, err := entitiesdb.New(db).LockForgeEntity(ctx, entitiesdb.LockForgeEntityParams{OrganizationID: who.OrganizationID, Name: name})
	if database.NoRows(err) {
		return row, auth.Refuse(auth.ErrNotFound, "there is no forge %q: see `prewarm forge list`", name)
	}
	if err != nil {
		return row, xerrors.Errorf("read forge: %w", err)
	}
	return row, nil
}

func (*Service) credential(
	ctx context.Context, db database.DBTX, who auth.Identity, name string,
) (database.ForgeCredential, error) {
	row, err := entitiesdb.New(db).LockForgeCredential(ctx, entitiesdb.LockForgeCredentialParams{OrganizationID: who.OrganizationID, Name: name})
	if database.NoRows(err) {
		return row, auth.Refuse(auth.ErrInvalid, "there is no credential %q: see `prewarm forge credential list`", name)
	}
	if err != nil {
		return row, xerrors.Errorf("read forge credential: %w", err)
	}
	return row, nil
}

func listed(names []string) string {
	const most = 5
	if len(names) > most {
		return strings.Join(names[:most], ", ") + ", …"
	}
	return strings.Join(names, ", ")
}

func record(
	ctx context.Context, db database.DBTX, who auth.Identity, action string, id uuid.UUID, name string, before, after any,
	reason string,
) error {
	return auth.Record(ctx, db, auth.Entry{
		ActorID: who.UserID, OrganizationID: who.OrganizationID, Action: action, TargetType: "forge", TargetID: id.String(),
		TargetName: name, Before: before, After: after, Reason: reason, Source: who.Source,
	})
}
