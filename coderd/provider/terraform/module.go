package terraform

import (
	"context"
	"encoding/json"

	"github.com/google/uuid"
	"golang.org/x/xerrors"

	"github.com/prewarm-dev/prewarm/coderd/modules"
)

// ArchiveOf implements provider.ArchiveTaker.
func (*Provider) ArchiveOf(spec json.RawMessage) string {
	var named struct {
		Module json.RawMessage `json:"module"`
	}
	var digest string
	if json.Unmarshal(spec, &named) != nil || json.Unmarshal(named.Module, &digest) != nil || !modules.IsDigest(digest) {
		return ""
	}
	return digest
}

// kept is a module as it is stored for its destroy.
type kept struct {
	// Files are the files, or the digest of the archive that has them. A server that knows no archives cannot read that one: it would
	// destroy without the files, and so without their provisioners.
	Files      json.RawMessage   `json:"files"`
	Variables  map[string]string `json:"variables"`
	Idempotent bool              `json:"idempotent,omitempty"`
	Workspace  workspace         `json:"workspace"`
	// Environment is the same in each run of a workspace, also where the server's address has changed since.
	Environment map[string]string `json:"environment,omitempty"`
}

func (m Module) encode() ([]byte, error) {
	var files any = m.Files
	if m.Archive != "" {
		files = m.Archive
	}
	raw, err := json.Marshal(files)
	if err != nil {
		return nil, xerrors.Errorf("encode files of module: %w", err)
	}
	encoded, err := json.Marshal(kept{raw, m.Variables, m.Idempotent, m.Workspace, m.Environment})
	if err != nil {
		return nil, xerrors.Errorf("encode module: %w", err)
	}
	return encoded, nil
}

func decodeModule(raw []byte) (Module, error) {
	var k kept
	if err := json.Unmarshal(raw, &k); err != nil {
		return Module{}, xerrors.Errorf("decode the module that made it: %w", err)
	}
	m := Module{Variables: k.Variables, Idempotent: k.Idempotent, Environment: k.Environment, Workspace: k.Workspace}
	if json.Unmarshal(k.Files, &m.Archive) == nil && m.Archive != "" {
		return m, nil
	}
	if err := json.Unmarshal(k.Files, &m.Files); err != nil {
		return Module{}, xerrors.Errorf("decode the files of the module that made it: %w", err)
	}
	return m, nil
}

// made is the module that made a workspace.
func (p *Provider) made(ctx context.Context, workspaceID uuid.UUID) (Module, error) {
	encoded, err := p.States.Module(ctx, workspaceID)
	if err != nil {
		return Module{}, xerrors.Errorf("read the module that made it: %w", err)
	}
	return decodeModule(encoded)
}

// open reads the files of a module from its archive, where it has one.
func (p *Provider) open(ctx context.Context, m Module) (Module, error) {
	if m.Archive == "" {
		return m, nil
	}
	archive, err := p.States.Archive(ctx, m.Archive)
	if err != nil {
		return m, xerrors.Errorf("read module %s: %w", m.Archive, err)
	}
	if is := modules.Digest(archive); is != m.Archive {
		return m, xerrors.Errorf("read module %s: what is stored has the digest %s", m.Archive, is)
	}
	files, err := modules.Read(archive)
	if err != nil {
		return m, xerrors.Errorf("read module %s: %w", m.Archive, err)
	}
	m.Files = make(map[string]string, len(files))
	for _, f := range files {
		m.Files[f.Name] = string(f.Content)
		if f.Executable {
			m.Executable = append(m.Executable, f.Name)
		}
	}
	return m, nil
}
