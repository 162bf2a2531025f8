package entities

import (
	"context"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"golang.org/x/xerrors"

	"github.com/prewarm-dev/prewarm/coderd/auth"
	"github.com/prewarm-dev/prewarm/coderd/seal"
	"github.com/prewarm-dev/prewarm/database"
	"github.com/prewarm-dev/prewarm/database/entitiesdb"
)

// Service changes credentials and entities. It is safe for concurrent use.
type Service struct {
	Store     *database.Store
	Keys      *seal.Keys
	Directory *Directory
	// SigningKeys seals the keys that sign instance tokens with the encryption key of that id, and says how many were not.
	// Nil: there are none.
	SigningKeys func(ctx context.Context, db database.DBTX, key string) (int, error)
	// States does the same with states of Terraform. Nil: there are none.
	States func(ctx context.Context, db database.DBTX, key string) (int, error)
}

// inTx changes what the directory knows.
func (s *Service) inTx(ctx context.Context, label string, do func(context.Context, database.DBTX) error) error {
	defer s.Directory.Forget()
	return s.Store.InTx(ctx, database.TxOptions{Label: label},
		func(ctx context.Context, tx pgx.Tx) error { return do(ctx, tx) })
}

// Credential is what is to be of one; of one that is there already, what is left empty stays.
type Credential struct {
	Kind                  string
	URL                   string
	Token                 string
	AppID, InstallationID int64
	PrivateKey            string
	CABundle              *string
}

// PutCredential makes or changes a credential. Errors for people are *auth.Refusal.
func (s *Service) PutCredential(ctx context.Context, who auth.Identity, name string, c Credential) error {
	if err := checkName(name); err != nil {
		return err
	}
	err := s.inTx(ctx, "put forge credential", func(ctx context.Context, db database.DBTX) error {
		old, err := entitiesdb.New(db).LockForgeCredential(ctx, entitiesdb.LockForgeCredentialParams{
			OrganizationID: who.OrganizationID, Name: name,
		})
		if database.NoRows(err) {
			return s.insertCredential(ctx, db, who, name, c)
		}
		if err != nil {
			return xerrors.Errorf("read forge credential: %w", err)
		}
		return s.updateCredential(ctx, db, who, old, c)
	})
	if database.IsUniqueViolation(err, "forge_credentials_name") {
		return auth.Refuse(auth.ErrConflict, "credential %s was made by somebody else at that moment: look at it first", name)
	}
	return err
}

func (s *Service) insertCredential(
	ctx context.Context, db database.DBTX, who auth.Identity, name string, c Credential,
) error {
	if c.Kind != "github" && c.Kind != "gitea" {
		return auth.Refuse(auth.ErrInvalid, "there is no credential %q yet; for a new one say kind, github or gitea", name)
	}
	row := database.ForgeCredential{
		ID: uuid.New(), OrganizationID: who.OrganizationID, Name: name, Kind: database.ForgeKind(c.Kind),
	}
	if c.Token == "" && c.PrivateKey == "" {
		return auth.Refuse(auth.ErrInvalid, "a token is missing, or app_id, installation_id and private_key of a GitHub App")
	}
	if err := s.change(&row, c); err != nil {
		return err
	}
	err := entitiesdb.New(db).InsertForgeCredential(ctx, entitiesdb.InsertForgeCredentialParams{
		ID: row.ID, OrganizationID: row.OrganizationID, Name: name, Kind: row.Kind, Url: row.Url, Auth: row.Auth,
		AppID: row.AppID, InstallationID: row.InstallationID, Secret: row.Secret, SealedBy: row.SealedBy,
		CaBundle: row.CaBundle,
	})
	if err != nil {
		return xerrors.Errorf("write forge credential: %w", err)
	}
	return recordCredential(ctx, db, who, "forge-credential.create", row, nil, facts(row, true))
}

func (s *Service) updateCredential(
	ctx context.Context, db database.DBTX, who auth.Identity, row database.ForgeCredential, c Credential,
) error {
	if c.Kind != "" && c.Kind != string(row.Kind) {
		return auth.Refuse(auth.ErrConflict, "credential %s is of kind %s, which cannot change: make another", row.Name, row.Kind)
	}
	before := facts(row, false)
	if err := s.change(&row, c); err != nil {
		return err
	}
	err := entitiesdb.New(db).UpdateForgeCredential(ctx, entitiesdb.UpdateForgeCredentialParams{
		ID: row.ID, Url: row.Url, Auth: row.Auth, AppID: row.AppID, InstallationID: row.InstallationID, Secret: row.Secret,
		SealedBy: row.SealedBy, CaBundle: row.CaBundle,
	})
	if err != nil {
		return xerrors.Errorf("write forge credential: %w", err)
	}
	ends := entitiesdb.EndForgeWaitsParams{CredentialID: uuid.NullUUID{UUID: row.ID, Valid: true}}
	if err := entitiesdb.New(db).EndForgeWaits(ctx, ends); err != nil {
		return xerrors.Errorf("end waits of forges: %w", err)
	}
	return recordCredential(ctx, db, who, "forge-credential.update", row, before,
		facts(row, c.Token != "" || c.PrivateKey != ""))
}

// change puts into the row what is said, checked.
func (s *Service) change(row *database.ForgeCredential, c Credential) (err error) {
	if c.URL != "" || row.Url == "" {
		old := row.Url
		if row.Url, err = checkURL(string(row.Kind), c.URL); err != nil {
			return err
		}
		if old != "" && row.Url != old && c.Token == "" && c.PrivateKey == "" { // else who knows it not could have it sent there
			return auth.Refuse(auth.ErrInvalid, "with another url give the token or private key again: it would be sent there")
		}
	}
	if c.CABundle != nil {
		if err := checkBundle(*c.CABundle); err != nil {
			return err
		}
		row.CaBundle = *c.CABundle
	}
	secret := c.Token
	switch {
	case c.Token != "" && (c.PrivateKey != "" || c.AppID != 0 || c.InstallationID != 0):
		return auth.Refuse(auth.ErrInvalid, "give a token or a GitHub App, not both")
	case c.Token != "":
		row.Auth, row.AppID, row.InstallationID = database.ForgeAuthToken, nil, nil
	case c.PrivateKey != "" || c.AppID != 0 || c.InstallationID != 0:
		if row.Kind != database.ForgeKindGithub {
			return auth.Refuse(auth.ErrInvalid, "only GitHub has Apps: give a token")
		}
		if c.AppID != 0 {
			row.AppID = &c.AppID
		}
		if c.InstallationID != 0 {
			row.InstallationID = &c.InstallationID
		}
		if row.AppID == nil || row.InstallationID == nil || row.Auth != database.ForgeAuthApp && c.PrivateKey == "" {
			return auth.Refuse(auth.ErrInvalid, "a GitHub App needs app_id, installation_id and private_key")
		}
		row.Auth, secret = database.ForgeAuthApp, c.PrivateKey
	}
	if secret == "" {
		return nil
	}
	if row.Auth == database.ForgeAuthApp {
		if err := checkPrivateKey(secret); err != nil {
			return err
		}
	}
	row.Secret, row.SealedBy, err = s.Keys.Seal([]byte(secret), aboutCredential(row.ID))
	return err
}

// DeleteCredential deletes one that no entity uses. It is no error if there is none.
func (s *Service) DeleteCredential(ctx context.Context, who auth.Identity, name string) (found bool, err error) {
	err = s.inTx(ctx, "delete forge credential", func(ctx context.Context, db database.DBTX) error {
		q := entitiesdb.New(db)
		row, err := q.LockForgeCredential(ctx, entitiesdb.LockForgeCredentialParams{
			OrganizationID: who.OrganizationID, Name: name,
		})
		if found = !database.NoRows(err); !found {
			return nil
		}
		if err != nil {
			return xerrors.Errorf("read forge credential: %w", err)
		}
		users, err := q.ForgeCredentialUsers(ctx, row.ID)
		if err != nil {
			return xerrors.Errorf("find entities of credential: %w", err)
		}
		if len(users) > 0 {
			return auth.Refuse(auth.ErrConflict, "credential %s is in use by forge %s: give these another first", name,
				listed(users))
		}
		if err := q.ForgetForgeStatus(ctx, row.ID); err != nil {
			return xerrors.Errorf("forget deleted entities: %w", err)
		}
		if err := q.ForgetForgeEntities(ctx, row.ID); err != nil {
			return xerrors.Errorf("forget deleted entities: %w", err)
		}
		if err := q.DeleteForgeCredential(ctx, row.ID); err != nil {
			return xerrors.Errorf("delete forge credential: %w", err)
		}
		return recordCredential(ctx, db, who, "forge-credential.delete", row, facts(row, false), nil)
	})
	return found, err
}

// facts is a credential for the record: everything but its secret, of which only is said that it changed.
func facts(row database.ForgeCredential, changed bool) map[string]any {
	f := map[string]any{
		"kind": row.Kind, "url": row.Url, "auth": row.Auth, "ca_bundle": row.CaBundle != "", "sealed_by": row.SealedBy,
	}
	if row.AppID != nil {
		f["app_id"], f["installation_id"] = *row.AppID, *row.InstallationID
	}
	if changed {
		f["secret"] = "changed"
	}
	return f
}

func recordCredential(
	ctx context.Context, db database.DBTX, who auth.Identity, action string, row database.ForgeCredential, before, after any,
) error {
	return auth.Record(ctx, db, auth.Entry{
		ActorID: who.UserID, OrganizationID: who.OrganizationID, Action: action, TargetType: "forge-credential",
		TargetID: row.ID.String(), TargetName: row.Name, Before: before, After: after, Source: who.Source,
	})
}
