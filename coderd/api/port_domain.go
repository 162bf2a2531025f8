package api

import (
	"net"
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"strings"

	"golang.org/x/net/publicsuffix"
	"golang.org/x/xerrors"

	"github.com/prewarm-dev/prewarm/coderd/sdk"
)

// PortDomain is where browsers reach ports of workspaces: PORT--NAME.DOMAIN, an origin for each. The zero value has none.
type PortDomain struct {
	name   string // in lower case, without a dot at its end; empty: there is none
	scheme string
	port   string // with its colon; empty: that of the scheme
	ui     string // where browsers find our pages
}

// door is a port as a browser names it.
type door struct {
	port      int
	workspace string
}

var domainName = regexp.MustCompile(`^([a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?\.)*[a-z]([a-z0-9-]{0,61}[a-z0-9])?$`)

// NewPortDomain checks that no port has the origin of our pages, or can set their cookies. The warning is for the log.
func NewPortDomain(domain, accessURL string) (d PortDomain, warning string, err error) {
	if domain == "" {
		return d, "", nil
	}
	domain = strings.ToLower(domain)
	ui, err := sdk.ParseURL(accessURL)
	host := ""
	if err == nil {
		host = strings.ToLower(ui.Hostname())
	}
	loopback := host == "localhost" || strings.HasSuffix(host, ".localhost") || net.ParseIP(host).IsLoopback()
	switch {
	case err != nil:
		return d, "", err
	case len(domain) > 150 || !domainName.MatchString(domain):
		return d, "", xerrors.Errorf("--workspace-domain %q is no domain: write one such as ws.example.com, without a port", domain)
	case related(host, domain):
		return d, "", xerrors.Errorf("--workspace-domain %s and the page at %s are the same host, or one is below the other. "+
			"So programs in workspaces could take the page's sessions: use a sibling domain, or better another one",
			domain, ui.Redacted())
	case ui.Scheme != "https" && !(loopback && (domain == "localhost" || strings.HasSuffix(domain, ".localhost"))):
		return d, "", xerrors.Errorf("--workspace-domain %s needs TLS, and the page is at %s: set --access-url to its https address. "+
			"Without TLS there is only a domain such as ws.localhost, with the page at a loopback address", domain, ui.Redacted())
	}
	d = PortDomain{name: domain, scheme: ui.Scheme, ui: ui.String()}
	if ui.Port() != "" {
		d.port = ":" + ui.Port()
	}
	site, err := publicsuffix.EffectiveTLDPlusOne(host)
	if other, err2 := publicsuffix.EffectiveTLDPlusOne(domain); err == nil && err2 == nil && site == other {
		warning = "the workspace domain and the page are of one site, " + site + ": a program in a workspace can set cookies for both. " +
			"Sessions are safe with TLS, but a domain of its own is better"
	}
	return d, warning, nil
}

// related says whether two hosts are one, or one is below the other.
func related(a, b string) bool {
	return a == b || strings.HasSuffix(a, "."+b) || strings.HasSuffix(b, "."+a)
}

// bareHost is a host in lower case, without a port and without the dot that may end it.
func bareHost(host string) string {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	return strings.TrimSuffix(strings.ToLower(host), ".")
}

// has says whether a request is for the domain, and so never for our pages or the API.
func (d PortDomain) has(host string) bool {
	host = bareHost(host)
	return d.name != "" && (host == d.name || strings.HasSuffix(host, "."+d.name))
}

// Reserved is Reserved for a server with this domain: ports of workspaces have no reserved slots.
func (d PortDomain) Reserved(r *http.Request) bool { return !d.has(r.Host) && Reserved(r) }

// door is the port that a host names, in one way of writing only but for letters' case: another would be another origin.
func (d PortDomain) door(host string) (door, bool) {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	label, found := strings.CutSuffix(strings.ToLower(host), "."+d.name)
	digits, workspace, cut := strings.Cut(label, "--")
	port, err := strconv.ParseUint(digits, 10, 16)
	if d.name == "" || !found || !cut || err != nil || port == 0 || strconv.FormatUint(port, 10) != digits ||
		workspace == "" || strings.Contains(workspace, ".") {
		return door{}, false
	}
	return door{int(port), workspace}, true
}

// host is that of a port.
func (d PortDomain) host(of door) string {
	return strconv.Itoa(of.port) + "--" + of.workspace + "." + d.name
}

// asked is the origin that a browser sees, whose request is for a host of the domain.
func (d PortDomain) asked(r *http.Request) string { return d.scheme + "://" + strings.ToLower(r.Host) }

// origin is that of a port, as links have it.
func (d PortDomain) origin(of door) string { return d.scheme + "://" + d.host(of) + d.port }

// page is that of ours which leads to a port, and from there to a path.
func (d PortDomain) page(of door, path string) string {
	return d.ui + "/workspaces/" + url.PathEscape(of.workspace) + "/ports/" + strconv.Itoa(of.port) + "?" + url.Values{"path": {path}}.Encode()
}

// secure says whether browsers reach ports by TLS.
func (d PortDomain) secure() bool { return d.scheme == "https" }
