package coderd

import (
	"context"
	"path/filepath"

	"cdr.dev/slog"
	"github.com/coder/quartz"

	"github.com/prewarm-dev/prewarm/coderd/demand/entities"
	"github.com/prewarm-dev/prewarm/coderd/demand/forge"
	"github.com/prewarm-dev/prewarm/coderd/demand/seal"
	"github.com/prewarm-dev/prewarm/database"
)

// forgeKinds are the kinds of forges that there are.
func forgeKinds() map[string]forge.Kind { return map[string]forge.Kind{} }

// newForges keeps credentials and entities. A file of keys that is named must be there; our own is made when it is needed.
func newForges(
	ctx context.Context, opts Options, store *database.Store, clock quartz.Clock, log slog.Logger,
) *entities.Service {
	path, own := opts.KeysFile, opts.KeysFile == ""
	if own {
		path = filepath.Join(opts.DataDir, "encryption.keys")
	}
	keys := seal.Open(path, own, clock)
	if keys.Exposed() {
		log.Warn(ctx, "others can read the encryption keys: chmod 600 the file", slog.F("path", path))
	}
	return &entities.Service{Store: store, Keys: keys, Directory: entities.NewDirectory(store, keys, forgeKinds(), clock)}
}
