package runners

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"slices"
	"time"

	"github.com/google/uuid"
	"golang.org/x/xerrors"

	"github.com/prewarm-dev/prewarm/coderd/demand/forge"
	"github.com/prewarm-dev/prewarm/database"
	"github.com/prewarm-dev/prewarm/database/runnersdb"
	"github.com/prewarm-dev/prewarm/database/viewsdb"
)

// User data that was written for GARM reads a just-in-time configuration of GitHub as the files that it is made of, one request
// for each. All come from one configuration, so what was not read yet is kept: sealed, each file for one reader, and only while
// the workspace is starting. A file whose answer was lost is lost, as a whole configuration is: the runner is replaced.

// fileNames are those of a just-in-time configuration.
var fileNames = []string{".runner", ".credentials", ".credentials_rsaparams"}

// filesKept is how long files are kept for who reads them. A script that reads one after another takes seconds.
const filesKept = 10 * time.Minute

// ErrNoFile: a configuration has no file of that name, or the forge makes none.
var ErrNoFile = errors.New("there is no such file of a configuration")

// File is one file of the just-in-time configuration of the workspace's runner, which is registered for the first of them. Each
// is read once. Errors are ErrNoFile, and those of Configuration.
func (s *Service) File(ctx context.Context, workspaceID uuid.UUID, incarnation int32, name string) ([]byte, error) {
	if !slices.Contains(fileNames, name) {
		return nil, xerrors.Errorf("%q: %w", name, ErrNoFile)
	}
	file, found, err := s.keptFile(ctx, workspaceID, incarnation, name)
	if err != nil || found {
		return file, err
	}
	var files map[string][]byte
	_, _, err = s.handOutOnce(ctx, workspaceID, incarnation, handing{
		ask: func(ctx context.Context, client forge.Forge, r forge.NewRunner) (forge.Registration, error) {
			jit, err := client.JIT(ctx)
			if err == nil && !jit {
				err = xerrors.Errorf("the forge makes no just-in-time configurations, but tokens: %w", ErrNoFile)
			}
			if err != nil {
				return forge.Registration{}, err
			}
			return client.Register(ctx, r)
		},
		keep: func(row viewsdb.RunnerOfRow, r forge.Registration) (kept runnersdb.HandOutParams, err error) {
			if files, err = filesOf(r.JITConfig); err != nil {
				return kept, err
			}
			return s.seal(row, files, name)
		},
	})
	return files[name], err
}

// filesOf takes a configuration apart. No error quotes it.
func filesOf(configuration string) (map[string][]byte, error) {
	files := map[string][]byte{}
	raw, err := base64.StdEncoding.DecodeString(configuration)
	if err != nil || json.Unmarshal(raw, &files) != nil {
		return nil, &ForgeError{xerrors.New("the forge's configuration is not made of files: read it whole, by the agent")}
	}
	for _, name := range fileNames {
		if len(files[name]) == 0 {
			return nil, &ForgeError{xerrors.Errorf("the forge's configuration has no file %s", name)}
		}
	}
	return files, nil
}

func aboutFiles(workspaceID uuid.UUID) string {
	return "forge_runners/" + workspaceID.String() + "/files"
}

// seal is what is kept of a configuration whose first file goes out.
func (s *Service) seal(row viewsdb.RunnerOfRow, files map[string][]byte, first string) (kept runnersdb.HandOutParams, err error) {
	if s.Keys == nil {
		return kept, xerrors.Errorf("this server has no encryption keys, which seal what is read later: %w", ErrNotNow)
	}
	raw, err := json.Marshal(files)
	if err != nil {
		return kept, xerrors.Errorf("encode files: %w", err)
	}
	sealed, by, err := s.Keys.Seal(raw, aboutFiles(row.WorkspaceID))
	if err != nil {
		return kept, xerrors.Errorf("seal files: %w", err)
	}
	return runnersdb.HandOutParams{Files: sealed, FilesSealedBy: &by, FilesRead: []string{first}}, nil
}

// keptFile is one of a configuration that was made for another of its files.
func (s *Service) keptFile(ctx context.Context, workspaceID uuid.UUID, incarnation int32, name string) ([]byte, bool, error) {
	q := runnersdb.New(s.Store)
	row, err := q.FilesOf(ctx, runnersdb.FilesOfParams{WorkspaceID: workspaceID, Incarnation: incarnation, Name: name})
	if database.NoRows(err) {
		return nil, false, nil
	}
	if err != nil {
		return nil, false, xerrors.Errorf("read files: %w", err)
	}
	if s.Keys == nil {
		return nil, false, xerrors.Errorf("this server has no encryption keys, which open the file: %w", ErrNotNow)
	}
	raw, err := s.Keys.Open(row.Files, row.SealedBy, aboutFiles(workspaceID))
	if err != nil { // another replica may have the key
		return nil, false, xerrors.Errorf("open files: %s: %w", err, ErrNotNow)
	}
	files := map[string][]byte{}
	if err := json.Unmarshal(raw, &files); err != nil {
		return nil, false, xerrors.New("decode files: they are not as they were sealed")
	}
	n, err := q.FileRead(ctx, runnersdb.FileReadParams{
		WorkspaceID: workspaceID, Incarnation: incarnation, Name: name, AllFiles: int32(len(fileNames)),
	})
	if err != nil {
		return nil, false, xerrors.Errorf("note that file is read: %w", err)
	}
	return files[name], n == 1, nil // else somebody was quicker
}
