package agent

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"cdr.dev/slog"
	"github.com/google/uuid"
	"golang.org/x/xerrors"

	"github.com/prewarm-dev/prewarm/coderd/provider"
	"github.com/prewarm-dev/prewarm/coderd/sdk"
)

// finished is the content of claim.done.
type finished struct {
	ClaimID uuid.UUID       `json:"claim_id"`
	Status  sdk.AgentStatus `json:"status"`
	Message string          `json:"message,omitempty"`
}

func (a *agent) prepareDir() error { return os.MkdirAll(a.Dir, 0o700) }

func (a *agent) file(name string) string { return filepath.Join(a.Dir, name) }

// writeClaim writes what the claim brings, and returns the environment of on_claim. claim.json comes last: when it is
// there, all is.
func (a *agent) writeClaim(m sdk.InstanceMetadata, claim sdk.InstanceClaim, env []string) ([]string, error) {
	brought := map[string]string{
		"PREWARM_CLAIM_ID": claim.ClaimID.String(), "PREWARM_OWNER": claim.Owner, "PREWARM_OWNER_ID": claim.OwnerID.String(),
	}
	for name, value := range claim.Parameters {
		if was, ok := m.Parameters[name]; !ok || was != value { // others are in the environment, perhaps overridden there
			brought[provider.ParameterVariable(name)] = value
		}
	}
	var shell strings.Builder
	for _, name := range slices.Sorted(maps.Keys(brought)) {
		shell.WriteString("export " + name + "='" + strings.ReplaceAll(brought[name], "'", `'\''`) + "'\n")
		env = append(env[:len(env):len(env)], name+"="+brought[name])
	}
	err := a.writeSecrets(claim.Secrets)
	claim.Secrets = nil // each in a file of its own, and in no other
	content, encodeErr := json.MarshalIndent(claim, "", "  ")
	err = cmp.Or(err, encodeErr)
	if err == nil {
		err = writeFile(a.file("claim.env"), []byte(shell.String()))
	}
	if err == nil {
		err = writeFile(a.file("claim.json"), append(content, '\n'))
	}
	if err != nil {
		return nil, xerrors.Errorf("write claim: %w", err)
	}
	return env, nil
}

// secretsDir holds a file for each secret of the claim. Once they are written the server has them no more: an agent that
// starts again in the same claim leaves the files as they are.
const secretsDir = "secrets"

func (a *agent) writeSecrets(secrets map[string]string) error {
	if len(secrets) == 0 {
		return nil
	}
	if err := os.MkdirAll(a.file(secretsDir), 0o700); err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(secrets)) {
		if !filepath.IsLocal(name) || name != filepath.Base(name) {
			return xerrors.Errorf("secret %q cannot be the name of a file", name)
		}
		if err := writeFile(filepath.Join(a.file(secretsDir), name), []byte(secrets[name])); err != nil {
			return err
		}
	}
	return nil
}

func (a *agent) finishClaim(f finished) error { return writeFile(a.file("claim.done"), encode(f)) }

// doneClaim is the claim that on_claim was run for last.
func (a *agent) doneClaim() (f finished, ok bool) {
	content, err := os.ReadFile(a.file("claim.done"))
	return f, err == nil && json.Unmarshal(content, &f) == nil
}

// forgetClaim removes what a claim brought that is over.
func (a *agent) forgetClaim(ctx context.Context) {
	if err := os.RemoveAll(a.file(secretsDir)); err != nil {
		a.Log.Warn(ctx, "remove the secrets of an earlier claim", slog.Error(err))
	}
	for _, name := range []string{"claim.json", "claim.env", "claim.done"} {
		if err := os.Remove(a.file(name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			a.Log.Warn(ctx, "remove what an earlier claim brought", slog.Error(err))
		}
	}
}

// environment is that of scripts: what the workspace is, under what the agent was given.
func environment(m sdk.InstanceMetadata, given []string, dir string) []string {
	env := []string{
		"PREWARM_WORKSPACE=" + m.Name, "PREWARM_WORKSPACE_ID=" + m.WorkspaceID.String(),
		"PREWARM_INCARNATION=" + strconv.Itoa(m.Incarnation), "PREWARM_ORGANIZATION=" + m.Organization,
		"PREWARM_TEMPLATE=" + m.Template, "PREWARM_PRESET=" + m.Preset,
	}
	for _, name := range slices.Sorted(maps.Keys(m.Parameters)) {
		env = append(env, provider.ParameterVariable(name)+"="+m.Parameters[name])
	}
	return append(append(env, given...), claimFiles(dir)...)
}

// claimFiles tell where a claim will be written, for those who run before there is one.
func claimFiles(dir string) []string {
	return []string{
		"PREWARM_CLAIM_FILE=" + filepath.Join(dir, "claim.json"), "PREWARM_CLAIM_ENV=" + filepath.Join(dir, "claim.env"),
		"PREWARM_SECRETS=" + filepath.Join(dir, secretsDir),
	}
}

// writeFile replaces a file in one step, readable by its owner only.
func writeFile(path string, content []byte) error {
	temp := path + ".new"
	if err := os.WriteFile(temp, content, 0o600); err != nil {
		return err
	}
	return os.Rename(temp, path)
}
