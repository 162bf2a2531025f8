package dbtest

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"io/fs"

	"github.com/jackc/pgx/v5"
	"golang.org/x/xerrors"

	"github.com/prewarm-dev/prewarm/database"
)

// templateLock keeps processes on a shared server from making the same template at once.
const templateLock = 7723_1960

// templateName changes with the migrations, so that a stale template is never used.
func templateName() (string, error) {
	digest := sha256.New()
	migrations := database.Migrations()
	err := fs.WalkDir(migrations, ".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		content, err := fs.ReadFile(migrations, path)
		digest.Write([]byte(path))
		digest.Write(content)
		return err
	})
	if err != nil {
		return "", xerrors.Errorf("read migrations: %w", err)
	}
	return "prewarm_template_" + hex.EncodeToString(digest.Sum(nil))[:12], nil
}

// withTemplate makes the template on the server at url, unless it is there. It gets its name when it is complete.
func withTemplate(ctx context.Context, url string) (server, error) {
	name, err := templateName()
	if err != nil {
		return server{}, err
	}
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return server{}, xerrors.Errorf("connect: %w", err)
	}
	defer conn.Close(ctx) // and with it the lock
	if _, err := conn.Exec(ctx, "SELECT pg_advisory_lock($1)", templateLock); err != nil {
		return server{}, xerrors.Errorf("lock template: %w", err)
	}
	var exists, strategies bool
	err = conn.QueryRow(ctx, "SELECT EXISTS (SELECT FROM pg_database WHERE datname = $1), "+
		"current_setting('server_version_num')::integer >= 150000", name).Scan(&exists, &strategies)
	if err != nil {
		return server{}, xerrors.Errorf("look for template: %w", err)
	}
	if !exists {
		if err := makeTemplate(ctx, conn, url, name); err != nil {
			return server{}, xerrors.Errorf("make template: %w", err)
		}
	}
	source := "TEMPLATE " + name
	if strategies {
		source += " STRATEGY file_copy" // without fsync several times as fast as through the write-ahead log
	}
	return server{url, source}, nil
}

func makeTemplate(ctx context.Context, conn *pgx.Conn, url, name string) error {
	draft := name + "_draft"
	for _, step := range []func() error{
		func() error { return execute(ctx, conn, "DROP DATABASE IF EXISTS "+draft+" WITH (FORCE)") },
		func() error { return execute(ctx, conn, "CREATE DATABASE "+draft+" TEMPLATE template0") },
		func() error { return database.Migrate(ctx, withDatabase(url, draft)) },
		func() error { return execute(ctx, conn, "ALTER DATABASE "+draft+" RENAME TO "+name) },
	} {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

func execute(ctx context.Context, conn *pgx.Conn, statement string) error {
	_, err := conn.Exec(ctx, statement)
	return err
}
