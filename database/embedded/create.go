package embedded

import (
	"bytes"
	"context"
	_ "embed"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"

	"golang.org/x/xerrors"
)

const (
	superuser = "postgres"
	role      = "prewarm"
	database  = "prewarm"
)

// defaults are appended to the postgresql.conf of a new cluster, for the administrator to change.
//
//go:embed postgresql.conf
var defaults string

// firstCommands run before anybody can connect: one statement a line. The last lets the server note in the database's
// settings where it is at home, by which it tells a restored backup; before PostgreSQL 15 only superusers may.
const firstCommands = `CREATE ROLE ` + role + ` LOGIN;
CREATE DATABASE ` + database + ` OWNER ` + role + `;
DO $$BEGIN IF current_setting('server_version_num')::int >= 150000 THEN EXECUTE 'GRANT SET ON PARAMETER prewarm.home TO ` + role + `'; END IF; END$$;
`

// create makes a new cluster in cluster. It is made elsewhere and renamed when complete, and what an interrupted try
// left is removed.
func (p program) create(ctx context.Context, cluster string) (err error) {
	parent := filepath.Dir(cluster)
	leftovers, _ := filepath.Glob(filepath.Join(parent, initPattern)) // no pattern characters matter but ours
	for _, dir := range leftovers {
		_ = os.RemoveAll(dir) // a dying initdb may still write there; then the next start removes it
	}
	fresh, err := os.MkdirTemp(parent, initPattern)
	if err != nil {
		return xerrors.Errorf("create folder: %w", err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.RemoveAll(fresh))
		}
	}()
	if err := p.account.own(fresh); err != nil {
		return xerrors.Errorf("hand folder to %s: %w", p.account.name, err)
	}

	err = p.run(ctx, "initdb", fresh, "", func(path string) []string {
		return []string{
			"--pgdata", path, "--username", superuser, "--auth", "trust", "--encoding", "UTF8", "--locale", "C",
			"--data-checksums", "--no-instructions",
		}
	})
	if err != nil {
		return err
	}
	if err := appendTo(filepath.Join(fresh, "postgresql.conf"), defaults); err != nil {
		return xerrors.Errorf("write configuration: %w", err)
	}
	err = p.run(ctx, "postgres", fresh, firstCommands, func(path string) []string {
		return []string{"--single", "-D", path, "-c", "exit_on_error=on", "-c", "log_checkpoints=off", "postgres"}
	})
	if err != nil {
		return err
	}
	if err := os.Rename(fresh, cluster); err != nil {
		return xerrors.Errorf("move cluster to its place: %w", err)
	}
	return syncFolder(parent)
}

// run runs one program on dir to its end.
func (p program) run(ctx context.Context, name, dir, input string, args func(path string) []string) error {
	var output bytes.Buffer
	child, err := p.start(name, dir, args, syscall.SIGKILL, func(cmd *exec.Cmd) {
		cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(input), &output, &output
	})
	if err != nil {
		return err
	}
	if err := child.wait(ctx); err != nil {
		return xerrors.Errorf("run %s: %w:\n%s", name, err, strings.TrimSpace(output.String()))
	}
	return nil
}

func appendTo(path, text string) error {
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		return err
	}
	_, err = file.WriteString(text)
	return errors.Join(err, file.Sync(), file.Close())
}

// syncFolder makes a rename in dir last.
func syncFolder(dir string) error {
	folder, err := os.Open(dir)
	if err != nil {
		return xerrors.Errorf("sync data directory: %w", err)
	}
	if err := errors.Join(folder.Sync(), folder.Close()); err != nil {
		return xerrors.Errorf("sync data directory: %w", err)
	}
	return nil
}
