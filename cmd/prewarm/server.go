//go:build linux

package main

import (
	"cmp"
	"crypto/x509"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/docker/go-units"
	"github.com/spf13/cobra"
	"golang.org/x/xerrors"

	"github.com/prewarm-dev/prewarm/coderd"
	"github.com/prewarm-dev/prewarm/coderd/sdk"
)

func (a *app) serverCommand() *cobra.Command {
	var opts coderd.Options
	var postgresURLFile, accessCAFile, metricsTokenFile, logFormat, logLevel string
	var proxies []string
	var hook webhookFlags
	cmd := newCommand("server", "Run a server",
		`Runs one replica of the server until it is stopped (SIGTERM, SIGINT). It then takes no more work,
finishes or hands back what it has, and ends. A second signal ends it at once.

Without --postgres-url it starts a PostgreSQL of its own in the data directory, which ends with it. Any number of
replicas can run over one database; each needs a data directory and a name of its own.

The first start writes a token of the owner to the file owner-token in the data directory. While the server runs, its
address is in the file server-url there: commands find both, by PREWARM_DATA_DIR where the directory is another one.`,
		`  prewarm server --quickstart
  prewarm server --listen 0.0.0.0:7080 --postgres-url-file /run/secrets/postgres-url --replica eu-1`,
		func(cmd *cobra.Command, _ []string) error {
			if err := cmp.Or(
				a.completeOptions(&opts, postgresURLFile),
				completeAccess(&opts, accessCAFile),
				completeConnections(&opts, proxies),
				completeMetrics(&opts, metricsTokenFile),
				completeLog(&opts, logFormat, logLevel),
				hook.complete(&opts),
			); err != nil {
				return err
			}
			opts.Command = a.own
			if opts.DataDir != a.defaultDataDir() { // where a command finds the server by itself
				opts.Command = "PREWARM_DATA_DIR=" + shellWord(opts.DataDir) + " " + cmp.Or(a.own, "prewarm")
			}
			opts.Version, opts.Stdout, opts.Stderr = version(), a.stdout, a.stderr
			return a.serve(cmd.Context(), opts)
		})
	flags := cmd.Flags()
	flags.StringVar(&opts.Listen, "listen", "127.0.0.1:7080", "address to listen at; port 0 takes a free one")
	flags.StringVar(&opts.AccessURL, "access-url", "",
		"address at which workspaces reach this or any other replica (default that of --listen)")
	flags.StringVar(&opts.Advertise, "advertise-url", "",
		"address at which the other replicas reach this one, to hand on requests into workspaces "+
			"(default that of --listen, where that names a machine)")
	flags.StringVar(&opts.WorkspaceDomain, "workspace-domain", "",
		"domain below which browsers reach ports of workspaces, as PORT--WORKSPACE.DOMAIN, such as ws.example.com "+
			"(default: they do not)")
	flags.StringVar(&accessCAFile, "access-ca-file", "",
		"PEM file of authorities by which agents trust the access URL, as well as those of their system")
	flags.StringVar(&opts.DataDir, "data-dir", "",
		"where the token, an own database and local workspaces are (default ~/.local/share/prewarm)")
	flags.StringVar(&opts.PostgresURL, "postgres-url", "",
		"database to use; prefer the file or the variable for one with a password, as arguments are seen by everybody")
	flags.StringVar(&postgresURLFile, "postgres-url-file", "", "file that holds the URL of the database")
	flags.StringVar(&opts.KeysFile, "encryption-keys-file", "",
		"file of keys (ID:BASE64 a line, the first seals) for secrets at rest, the same on all replicas "+
			"(default encryption.keys in the data directory)")
	flags.BoolVar(&opts.Quickstart, "quickstart", false, "make a first template, if there is none")
	flags.DurationVar(&opts.Tick, "tick", 15*time.Second, "time between two passes over everything")
	flags.DurationVar(&opts.Drain, "drain", 0,
		"how long to serve on after SIGTERM, unready, so that a load balancer sends nothing more before it stops")
	flags.StringSliceVar(&proxies, "trusted-proxies", nil,
		"addresses or networks of proxies whose X-Forwarded-For and X-Forwarded-Proto are believed, such as 10.0.0.0/8")
	flags.IntVar(&opts.MaxConnections, "max-connections", 0,
		"connections to serve at once (default half of the files that the process may open, at most 10000)")
	flags.IntVar(&opts.MaxPerAddress, "max-connections-per-address", 0,
		"connections of one address, or requests in progress of one client of a trusted proxy (default a quarter of all)")
	flags.Int32Var(&opts.MaxWaitingClaims, "max-waiting-claims", 200,
		"claims of one user that may wait at once; 0 is any number")
	flags.Int32Var(&opts.MaxColdClaims, "max-cold-claims", 20,
		"those of them that may wait for a workspace built for them (--mode bypass, --cold); 0 is any number")
	flags.IntVar(&opts.Streams.UserStreams, "max-streams-per-user", 1000,
		"commands, transfers and connections of one user into workspaces, at once at this replica; 0 is any number")
	flags.Var((*byteRate)(&opts.Streams.UserRate), "max-rate-per-user",
		"bytes that one user may send to and receive from workspaces in a second through this replica, such as 50MiB; 0 is no limit")
	flags.Var((*byteRate)(&opts.Streams.WorkspaceRate), "max-rate-per-workspace",
		"the same of all users of one workspace")
	flags.StringVar(&metricsTokenFile, "metrics-token-file", "",
		"file that holds the token that /metrics asks for, at least 16 bytes (default: it asks for none)")
	flags.StringVar(&opts.Replica, "replica", "", "name of this replica; made of the host's where empty")
	flags.StringVar(&logFormat, "log-format", "text", "how the log is written: text or json")
	flags.StringVar(&logLevel, "log-level", "info", "what is logged: debug, info, warn or error, and what is worse")
	hook.register(flags)
	flags.VisitAll(fromEnv)
	return cmd
}

// byteRate is a flag of bytes in a second, such as 50MiB.
type byteRate int64

func (r *byteRate) Set(text string) error {
	n, err := units.RAMInBytes(text)
	if err != nil || n < 0 {
		return xerrors.New("write it like 500KiB or 50MiB; 0 is no limit")
	}
	if n > 0 && n < coderd.LeastRate {
		return xerrors.Errorf("that is too little for a terminal: at least %s", units.BytesSize(coderd.LeastRate))
	}
	*r = byteRate(n)
	return nil
}

func (r *byteRate) String() string {
	if *r == 0 {
		return "0"
	}
	return units.BytesSize(float64(*r))
}

func (*byteRate) Type() string { return "rate" }

// ownCommand is how a shell in this folder runs this program: by its name if PATH has it, else as it was called.
func ownCommand(called string) string {
	const name = "prewarm"
	if !strings.Contains(called, "/") {
		return name
	}
	path, err := exec.LookPath(name)
	if err == nil {
		found, err1 := os.Stat(path)
		own, err2 := os.Stat(called)
		if err1 == nil && err2 == nil && os.SameFile(found, own) {
			return name
		}
	}
	return shellWord(called)
}

// replicaName is what a replica can be called: it is shown in lists and metrics.
var replicaName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$`)

// completeOptions checks what the flags say, so that a mistake ends the command before anything is touched.
func (a *app) completeOptions(opts *coderd.Options, postgresURLFile string) error {
	err := cmp.Or(checkListen(opts.Listen),
		usageErrorIf(opts.Tick <= 0, "--tick must be more than 0, such as 15s"),
		usageErrorIf(opts.Drain < 0, "--drain must not be negative; 0 stops at once"),
		usageErrorIf(opts.Replica != "" && !replicaName.MatchString(opts.Replica),
			"--replica %q: a name is letters, digits, dots, dashes and underscores, at most 63", opts.Replica),
	)
	if err != nil {
		return err
	}
	opts.PostgresURL, err = valueOrFile("postgres-url", "database URL", opts.PostgresURL, postgresURLFile)
	if err != nil {
		return err
	}
	// The message must not repeat the URL: there may be a password in it.
	if scheme, _, ok := strings.Cut(opts.PostgresURL, "://"); ok && scheme != "postgres" && scheme != "postgresql" {
		return usageErrorf("the URL of the database must begin with postgres://")
	}
	opts.DataDir = cmp.Or(opts.DataDir, a.dataDir())
	if opts.DataDir, err = filepath.Abs(opts.DataDir); err != nil {
		return xerrors.Errorf("find data directory: %w", err)
	}
	return nil
}

// completeConnections checks whom the server believes, and how many it serves at once.
func completeConnections(opts *coderd.Options, proxies []string) error {
	if opts.MaxConnections < 0 || opts.MaxPerAddress < 0 {
		return usageErrorf("--max-connections and --max-connections-per-address must not be negative; 0 is the default")
	}
	for _, given := range proxies {
		prefix, err := netip.ParsePrefix(given)
		if err != nil {
			addr, addrErr := netip.ParseAddr(given)
			if addrErr != nil {
				return usageErrorf("--trusted-proxies %q: write addresses or networks, such as 10.0.0.7 or 10.0.0.0/8", given)
			}
			prefix = netip.PrefixFrom(addr, addr.BitLen())
		}
		opts.Proxies = append(opts.Proxies, prefix)
	}
	return nil
}

// completeMetrics reads what /metrics asks for.
func completeMetrics(opts *coderd.Options, tokenFile string) error {
	if tokenFile == "" {
		return nil
	}
	token, err := readTrimmed("token of metrics", tokenFile)
	if err != nil {
		return err
	}
	if len(token) < 16 {
		return usageErrorf("--metrics-token-file: %s has %d bytes: at least 16 are needed", tokenFile, len(token))
	}
	opts.MetricsToken = token
	return nil
}

// completeAccess checks what agents are told of the way back.
func completeAccess(opts *coderd.Options, caFile string) error {
	if opts.AccessURL != "" {
		if _, err := sdk.ParseURL(opts.AccessURL); err != nil {
			return usageErrorf("--access-url: %v", err)
		}
	}
	if opts.Advertise != "" {
		if _, err := sdk.ParseURL(opts.Advertise); err != nil {
			return usageErrorf("--advertise-url: %v", err)
		}
	}
	if caFile == "" {
		return nil
	}
	content, err := os.ReadFile(caFile)
	if err != nil {
		return xerrors.Errorf("read authorities of access URL: %w", err)
	}
	if !x509.NewCertPool().AppendCertsFromPEM(content) {
		return xerrors.Errorf("read authorities of access URL: %s holds no certificate in PEM", caFile)
	}
	opts.AccessCA = string(content)
	return nil
}

func checkListen(address string) error {
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		return usageErrorf("--listen %q: write HOST:PORT, such as 127.0.0.1:7080", address)
	}
	if n, err := strconv.Atoi(port); err != nil || n < 0 || n > 65535 {
		return usageErrorf("--listen %q: the port must be a number up to 65535", address)
	}
	return nil
}
