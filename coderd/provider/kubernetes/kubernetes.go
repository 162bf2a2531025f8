package kubernetes

import (
	"cmp"
	"context"
	"encoding/json"
	"sync/atomic"
	"time"

	"cdr.dev/slog"
	"github.com/coder/quartz"
	"golang.org/x/xerrors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/prewarm-dev/prewarm/coderd/provider"
)

// Options are what a Provider needs.
type Options struct {
	Config Config
	Clock  quartz.Clock
	Logger slog.Logger
}

// Provider keeps workspaces as pods of one namespace. Any number of them, of any installations, may use the same one.
type Provider struct {
	config  Config
	cluster *cluster
	clock   quartz.Clock
	logger  slog.Logger

	ordinaryWatch atomic.Bool // the API server refuses a list as a stream
}

var _ interface {
	provider.Provider
	provider.AgentHost
	provider.Checker
	provider.Execer
	provider.Logger
	provider.Marker
	provider.Observer
	provider.Stopper
	provider.StopChecker
} = (*Provider)(nil)

// helloTimeout bounds the question with which a provider begins.
const helloTimeout = 10 * time.Second

// New asks the API server whether pods can be listed. It is an error if that is not so.
func New(ctx context.Context, opts Options) (*Provider, error) {
	p := &Provider{config: opts.Config, clock: opts.Clock, logger: opts.Logger}
	p.clock = cmp.Or(p.clock, quartz.NewReal())
	var err error
	if p.cluster, err = newCluster(opts.Config); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, helloTimeout)
	defer cancel()
	if _, err := p.cluster.pods(ctx, metav1.ListOptions{Limit: 1, LabelSelector: labelInstallation}); err != nil {
		return nil, xerrors.Errorf("list pods of namespace %s at %s: %w", p.cluster.namespace, p.cluster.config.Host,
			mapped(ctx, err))
	}
	return p, nil
}

// HostsAgent marks this as a provider that runs agents: see agent.go.
func (*Provider) HostsAgent() {}

// Validate reports what is wrong with a spec, or more than the configuration allows.
func (p *Provider) Validate(raw json.RawMessage, parameters map[string]string) []provider.Problem {
	_, problems := parseSpec(p.config, raw, parameters)
	return problems
}
