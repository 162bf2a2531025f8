package coderd

import (
	"context"
	"path/filepath"

	"cdr.dev/slog"
	"github.com/coder/quartz"

	"github.com/prewarm-dev/prewarm/coderd/demand/forge"
	"github.com/prewarm-dev/prewarm/coderd/demand/gitea"
	"github.com/prewarm-dev/prewarm/coderd/demand/github"
	"github.com/prewarm-dev/prewarm/coderd/seal"
)

// forgeKinds are the kinds of forges that there are.
func forgeKinds() map[string]forge.Kind {
	return map[string]forge.Kind{"github": github.Kind, "gitea": gitea.Kind}
}

// openKeys are the encryption keys. A file that is named must be there; our own is made when it is needed.
func openKeys(ctx context.Context, opts Options, clock quartz.Clock, log slog.Logger) *seal.Keys {
	path, own := opts.KeysFile, opts.KeysFile == ""
	if own {
		path = filepath.Join(opts.DataDir, "encryption.keys")
	}
	keys := seal.Open(path, own, clock)
	if keys.Exposed() {
		log.Warn(ctx, "others can read the encryption keys: chmod 600 the file", slog.F("path", path))
	}
	return keys
}

// sealsKeys says whether what signs instance tokens is sealed: where all replicas have the same encryption keys, since they
// were given a file, or are one.
func (o Options) sealsKeys() bool { return o.KeysFile != "" || o.PostgresURL == "" }

// warnOfPlainKeys says where who reads the database could speak for workspaces.
func (r *server) warnOfPlainKeys(ctx context.Context) {
	plain, err := r.replica.Instances.InPlain(ctx)
	switch {
	case err != nil || plain == 0: // an error is told by whatever else asks the database
	case r.opts.sealsKeys():
		r.log.Warn(ctx, "keys that sign instance tokens are in the database in plain: once all servers run this release, seal "+
			"them with `prewarm forge reseal`", slog.F("keys", plain))
	default:
		r.log.Warn(ctx, "keys that sign instance tokens are in the database in plain: give all servers the same "+
			"--encryption-keys-file, and seal them with `prewarm forge reseal`", slog.F("keys", plain))
	}
}
