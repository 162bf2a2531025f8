package states

import (
	"context"
	"errors"
	"time"

	"github.com/google/uuid"
	"golang.org/x/xerrors"

	"github.com/prewarm-dev/prewarm/coderd/modules"
	"github.com/prewarm-dev/prewarm/database"
	"github.com/prewarm-dev/prewarm/database/statesdb"
)

// MaxUnused is how many bytes of archives that no template names an organization can have.
const MaxUnused = 100 << 20

// ErrNoArchive: there is no archive with that digest.
var ErrNoArchive = errors.New("the archive of the module is not stored")

// ErrUnused: the organization has too much that no template names.
var ErrUnused = errors.New("the organization has more than 100 MiB of modules that no template names")

// ErrDigest: the archive has another digest than it was said to have.
var ErrDigest = errors.New("the archive has another digest")

// Archive is what is known of the archive of a module, beside itself.
type Archive struct {
	Digest    string
	Size      int32 // in bytes
	CreatedAt time.Time
}

// StoreArchive stores an archive for an organization, once. It stays for a day, and for as long as a version of a template names it, or
// a workspace was made with it. stored is false where it was there. db is a transaction. The errors are ErrDigest, ErrUnused,
// *modules.Error and those of the database.
func (*Service) StoreArchive(ctx context.Context, db database.DBTX, organizationID uuid.UUID, digest string, archive []byte) (is Archive, stored bool, err error) {
	if modules.Digest(archive) != digest {
		return Archive{}, false, ErrDigest
	}
	if _, err := modules.Read(archive); err != nil {
		return Archive{}, false, err
	}
	q := statesdb.New(db)
	if err := q.LockTerraformModules(ctx, organizationID); err != nil {
		return Archive{}, false, xerrors.Errorf("lock modules: %w", err)
	}
	used, err := q.UseTerraformModule(ctx, statesdb.UseTerraformModuleParams{OrganizationID: organizationID, Digest: digest})
	if err == nil {
		return Archive{digest, used.Size, used.CreatedAt}, false, nil
	}
	if !database.NoRows(err) {
		return Archive{}, false, xerrors.Errorf("look for module: %w", err)
	}
	unused, err := q.UnusedTerraformModules(ctx, organizationID)
	if err != nil {
		return Archive{}, false, xerrors.Errorf("count unused modules: %w", err)
	}
	if unused+int64(len(archive)) > MaxUnused {
		return Archive{}, false, ErrUnused
	}
	made, err := q.InsertTerraformModule(ctx, statesdb.InsertTerraformModuleParams{
		OrganizationID: organizationID, Digest: digest, Archive: archive,
	})
	if err != nil {
		return Archive{}, false, xerrors.Errorf("store module: %w", err)
	}
	return Archive{digest, made.Size, made.CreatedAt}, true, nil
}

// ShowArchive is what is known of an archive of an organization. The errors are ErrNoArchive and those of the database.
func (s *Service) ShowArchive(ctx context.Context, organizationID uuid.UUID, digest string) (Archive, error) {
	row, err := statesdb.New(s.Store).ShowTerraformModule(ctx, statesdb.ShowTerraformModuleParams{OrganizationID: organizationID, Digest: digest})
	if database.NoRows(err) {
		return Archive{}, ErrNoArchive
	}
	if err != nil {
		return Archive{}, xerrors.Errorf("look for module: %w", err)
	}
	return Archive{digest, row.Size, row.CreatedAt}, nil
}

// UseArchive says whether an organization has an archive, and keeps it for a day: longer than an apply that names it may take.
func (s *Service) UseArchive(ctx context.Context, organizationID uuid.UUID, digest string) (bool, error) {
	_, err := statesdb.New(s.Store).UseTerraformModule(ctx, statesdb.UseTerraformModuleParams{OrganizationID: organizationID, Digest: digest})
	if database.NoRows(err) {
		return false, nil
	}
	if err != nil {
		return false, xerrors.Errorf("look for module: %w", err)
	}
	return true, nil
}

// Archive is one by its digest, for a run: that the organization has it was seen when the version that names it was applied. The errors
// are ErrNoArchive and those of the database.
func (s *Service) Archive(ctx context.Context, digest string) ([]byte, error) {
	archive, err := statesdb.New(s.Store).TerraformArchive(ctx, digest)
	if database.NoRows(err) {
		return nil, ErrNoArchive
	}
	if err != nil {
		return nil, xerrors.Errorf("read archive: %w", err)
	}
	return archive, nil
}
