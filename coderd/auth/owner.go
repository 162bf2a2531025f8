package auth

import (
	"cmp"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"

	"github.com/jackc/pgx/v5"
	"golang.org/x/xerrors"

	"github.com/prewarm-dev/prewarm/database"
	"github.com/prewarm-dev/prewarm/database/authdb"
)

const (
	ownerUser      = "owner"
	ownerTokenFile = "owner-token"
	// The secret waits here until its row is committed.
	ownerTokenNext = ownerTokenFile + ".new"
)

// EnsureOwner gives the data directory a token of user owner, in the file owner-token with mode 0600, and returns the
// file's path and whether it was made now.
//
// Every data directory has a token of its own: replicas that start at once each make one, and whoever lost the file
// gets another by starting the server. That gives away nothing, since whoever starts a server on this database may do
// everything with it anyway; each one made is in the audit log. A token that the file holds is left alone even if it
// was revoked, and none is made for a user owner who is disabled or no longer an owner: somebody meant that.
//
// The order is: secret into a second file, row committed, file renamed. Killed before the commit, the next start makes
// another secret; killed after it, the next start finds the second file's token in the database and renames it. So do
// two servers that share the directory, one after the other, since the transaction locks the organization.
func EnsureOwner(ctx context.Context, store *database.Store, dataDir string) (path string, created bool, err error) {
	path, next := filepath.Join(dataDir, ownerTokenFile), filepath.Join(dataDir, ownerTokenNext)
	rename := false
	err = store.InTx(ctx, database.TxOptions{Label: "ensure owner"},
		func(ctx context.Context, tx pgx.Tx) error {
			rename, created = false, false
			if _, err := database.New(tx).LockOrganization(ctx, DefaultOrganizationID); err != nil {
				return xerrors.Errorf("lock organization: %w", err)
			}
			if known, err := knownToken(ctx, tx, path); err != nil || known {
				return err
			}
			if known, err := knownToken(ctx, tx, next); err != nil || known {
				rename = known
				return err
			}
			// Whoever committed before us renames without the lock: between the two looks above, perhaps.
			if known, err := knownToken(ctx, tx, path); err != nil || known {
				return err
			}
			user, err := ownerOf(ctx, tx, dataDir)
			if err != nil || user.DisabledAt != nil || user.Role != database.RoleOwner {
				return err
			}
			secret := NewSecret()
			if err := writeSecret(next, secret); err != nil {
				return err
			}
			rename, created = true, true
			_, err = insertToken(ctx, tx, builtin(dataDir), user, TokenRequest{Name: ownerTokenFile}, secret)
			return err
		})
	if err != nil {
		return "", false, err
	}
	if rename {
		if err := os.Rename(next, path); err != nil && !errors.Is(err, os.ErrNotExist) {
			return "", false, xerrors.Errorf("rename owner token: %w", err)
		}
		if err := syncDir(dataDir); err != nil {
			return "", false, err
		}
	}
	return path, created, nil
}

// builtin is the identity that the first start acts as; dataDir tells where from.
func builtin(dataDir string) Identity {
	return Identity{
		Principal:  Principal{UserID: BuiltinUserID},
		Membership: Membership{OrganizationID: DefaultOrganizationID, Role: database.RoleSystem},
		Source:     dataDir,
	}
}

// knownToken says whether the file's token is in this database, revoked or not.
func knownToken(ctx context.Context, db database.DBTX, path string) (bool, error) {
	content, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, xerrors.Errorf("read owner token: %w", err)
	}
	hash := Secret(strings.TrimSpace(string(content))).Hash()
	_, err = authdb.New(db).TokenByHash(ctx, hash[:])
	if database.NoRows(err) {
		return false, nil
	}
	if err != nil {
		return false, xerrors.Errorf("find owner token: %w", err)
	}
	return true, nil
}

func ownerOf(ctx context.Context, db database.DBTX, dataDir string) (authdb.UserInOrganizationRow, error) {
	user, err := authdb.New(db).UserInOrganization(ctx,
		authdb.UserInOrganizationParams{OrganizationID: DefaultOrganizationID, Name: ownerUser})
	if database.NoRows(err) {
		by := Entry{ActorID: BuiltinUserID, OrganizationID: DefaultOrganizationID, Source: dataDir, Reason: "first start"}
		return makeUser(ctx, db, by, ownerUser, database.RoleOwner)
	}
	if err != nil {
		return user, xerrors.Errorf("find owner: %w", err)
	}
	return user, nil
}

// writeSecret leaves the file on disk with its content or not at all worth trusting: the row decides which.
func writeSecret(path string, secret Secret) error {
	// A file left by a start that was killed may have been made with another mode.
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return xerrors.Errorf("remove old owner token: %w", err)
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return xerrors.Errorf("create owner token: %w", err)
	}
	_, err = f.WriteString(secret.Reveal() + "\n")
	if err == nil {
		err = f.Sync()
	}
	err = cmp.Or(err, f.Close())
	if err != nil {
		return xerrors.Errorf("write owner token: %w", err)
	}
	return nil
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return xerrors.Errorf("open data directory: %w", err)
	}
	defer func() { _ = d.Close() }()
	if err := d.Sync(); err != nil {
		return xerrors.Errorf("sync data directory: %w", err)
	}
	return nil
}
