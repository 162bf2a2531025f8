package external

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"slices"
	"strings"

	"cdr.dev/slog"
	"github.com/cloudbase/garm-provider-common/execution/common"
	"golang.org/x/xerrors"
)

// facts are what an executable says of itself.
type facts struct {
	protocol   string // v0.1.0 or v0.1.1
	version    string // its own
	extraSpecs *schema
}

// probe asks for versions and schemas. Those are asked once: another executable or configuration is another Provider.
func (p *Provider) probe(ctx context.Context) (facts, error) {
	f := facts{protocol: p.config.InterfaceVersion}
	if f.protocol == "" {
		f.protocol = p.negotiate(ctx)
	}
	var err error
	if f.version, err = p.version(ctx, f.protocol); err != nil {
		return f, err
	}
	if p.config.InterfaceVersion == "" && f.protocol == common.Version010 {
		f.protocol = p.negotiate(ctx) // it answers now: was it too old to know, or was something in the way?
	}
	if f.protocol != common.Version011 {
		return f, nil
	}
	f.extraSpecs = p.schema(ctx, common.GetExtraSpecsJSONSchemaCommand)
	return f, p.checkConfigFile(ctx)
}

// negotiate finds the newest version of the protocol that both speak. An executable that does not know the question is
// older than it.
func (p *Provider) negotiate(ctx context.Context) string {
	answer, err := p.call(ctx, request{
		command: common.GetSupportedInterfaceVersionsCommand, protocol: common.Version011,
	})
	var versions []string
	if err != nil || json.Unmarshal(answer, &versions) != nil || !slices.Contains(versions, common.Version011) {
		return common.Version010
	}
	return common.Version011
}

// version is what the executable calls itself. The first ones had no word for that, but could list: one that can do
// neither is of no use.
func (p *Provider) version(ctx context.Context, protocol string) (string, error) {
	answer, err := p.call(ctx, request{command: common.GetVersionCommand, protocol: protocol})
	if _, failed := errors.AsType[*exitError](err); failed {
		var list []json.RawMessage
		if p.ask(ctx, request{command: common.ListInstancesCommand, protocol: protocol}, &list) == nil {
			return "", nil
		}
	}
	return strings.Trim(strings.TrimSpace(string(answer)), `"`), err
}

// schema asks for a schema. One that is missing or can't be understood checks nothing, which does not stop anybody from
// using the executable.
func (p *Provider) schema(ctx context.Context, command common.ExecutionCommand) *schema {
	answer, err := p.call(ctx, request{command: command, protocol: common.Version011})
	var s *schema
	if err == nil {
		s, err = parseSchema(answer)
	}
	if err != nil {
		p.log.Warn(ctx, "the executable gave no schema; nothing is checked by it",
			slog.F("executable", p.config.Executable), slog.F("command", string(command)), slog.Error(err))
	}
	return s
}

// checkConfigFile checks the executable's configuration by its own schema, if the file is JSON. Most are TOML.
func (p *Provider) checkConfigFile(ctx context.Context) error {
	content, err := os.ReadFile(p.config.ConfigFile)
	if err != nil {
		return xerrors.Errorf("config_file: %w", err)
	}
	if !json.Valid(content) {
		return nil
	}
	if problems := p.schema(ctx, common.GetConfigJSONSchemaCommand).problems(content); len(problems) > 0 {
		return xerrors.Errorf("config_file: %s: %s %s", p.config.ConfigFile, problems[0].Path, problems[0].Message)
	}
	return nil
}
