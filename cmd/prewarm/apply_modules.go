package main

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/xerrors"

	"github.com/prewarm-dev/prewarm/coderd/modules"
	"github.com/prewarm-dev/prewarm/coderd/sdk"
)

// withModules uploads the directories that a document names as modules of Terraform, as far as the server does not have them, and names
// them by their digests instead. A directory is relative to that of the file, and a commit in Git is fetched first.
func (a *app) withModules(ctx context.Context, c *sdk.Client, file, document string) (string, error) {
	places, err := modulesOf(ctx, c, document)
	if err != nil {
		return "", err
	}
	dir := "."
	if file != "stdin" {
		dir = filepath.Dir(file)
	}
	var packed []packedModule
	var wrong []error
	for _, at := range slices.Backward(places) { // so that the places of others on the line stay right
		path := at.Text
		if !modules.InGit(path) && !filepath.IsAbs(path) {
			path = filepath.Join(dir, path)
		}
		i := slices.IndexFunc(packed, func(m packedModule) bool { return m.path == path })
		if i < 0 {
			archive, err := a.pack(ctx, path)
			if err != nil {
				wrong = append(wrong, xerrors.Errorf("%s:%d:%d: spec.module: %s: %w", file, at.Line, at.Column, withoutSecrets(path), err))
				continue
			}
			i, packed = len(packed), append(packed, packedModule{path, archive, modules.Digest(archive)})
		}
		var replaced bool
		if document, replaced = modules.Replace(document, at, packed[i].digest); !replaced {
			wrong = append(wrong, xerrors.Errorf("%s:%d:%d: spec.module must be on one line, such as module: ./vm", file, at.Line, at.Column))
		}
	}
	if slices.Reverse(wrong); len(wrong) > 0 {
		return "", errors.Join(wrong...)
	}
	for _, m := range slices.Backward(packed) {
		if err := a.uploadModule(ctx, c, m); err != nil {
			return "", xerrors.Errorf("upload %s: %w", m.path, err)
		}
	}
	return document, nil
}

// packedModule is a directory as it is uploaded.
type packedModule struct {
	path    string
	archive []byte
	digest  string
}

// modulesOf are the directories that a document names, at providers of this kind. What else is named is for the server to say.
func modulesOf(ctx context.Context, c *sdk.Client, document string) ([]modules.Place, error) {
	places, kinds := modules.Places(document)
	declared := func(p modules.Place) bool { return kinds[p.Provider] != "" }
	if slices.ContainsFunc(places, func(p modules.Place) bool { return !declared(p) }) {
		providers, err := c.Providers(ctx)
		if sdk.StatusOf(err) == http.StatusForbidden {
			return nil, nil // who may not see them may not apply, which the server says better
		}
		if err != nil {
			return nil, xerrors.Errorf("list providers: %w", err)
		}
		for _, p := range providers {
			kinds[p.Name] = cmp.Or(kinds[p.Name], p.Kind)
		}
	}
	return slices.DeleteFunc(places, func(p modules.Place) bool {
		return kinds[p.Provider] != "terraform" || strings.Contains(p.Text, "://") && !modules.InGit(p.Text)
	}), nil
}

// uploadModule has the server store a directory, if it does not yet.
func (a *app) uploadModule(ctx context.Context, c *sdk.Client, m packedModule) error {
	_, err := c.Module(ctx, m.digest)
	if sdk.StatusOf(err) == http.StatusNotFound {
		_, err = c.UploadModule(ctx, m.digest, m.archive)
		if err == nil && !a.machine() {
			a.hint("Uploaded %s (%s).", m.path, modules.Size(int64(len(m.archive))))
		}
	}
	return err
}
