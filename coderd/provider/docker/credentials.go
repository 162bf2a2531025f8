package docker

import (
	"encoding/base64"
	"encoding/json"
	"os"
	"strings"

	"github.com/distribution/reference"
	"github.com/moby/moby/api/pkg/authconfig"
	"github.com/moby/moby/api/types/registry"
	"golang.org/x/xerrors"
)

// dockerHub is under which name `docker login` writes the credentials of the registry that has no name.
const dockerHub = "https://index.docker.io/v1/"

// credentials reads what the engine is to show to the registry of an image, empty if nothing. It is read at each pull, so
// that it can be renewed, and its content is in no message.
func (p *Provider) credentials(ref string) (string, error) {
	if p.config.RegistryAuthFile == "" {
		return "", nil
	}
	named, err := reference.ParseDockerRef(ref)
	if err != nil {
		return "", xerrors.Errorf("read credentials: %w", err)
	}
	content, err := os.ReadFile(p.config.RegistryAuthFile)
	if err != nil {
		return "", xerrors.Errorf("read credentials: %w", err)
	}
	var file struct {
		Auths map[string]registry.AuthConfig `json:"auths"`
	}
	if json.Unmarshal(content, &file) != nil {
		return "", xerrors.Errorf("read credentials: %s is not what `docker login` writes", p.config.RegistryAuthFile)
	}
	domain := reference.Domain(named)
	auth, ok := file.Auths[domain]
	if !ok && domain == "docker.io" {
		auth, ok = file.Auths[dockerHub]
	}
	if !ok {
		return "", nil
	}
	if auth.Auth != "" {
		plain, err := base64.StdEncoding.DecodeString(auth.Auth)
		if err != nil {
			return "", xerrors.Errorf("read credentials: auth of %s in %s is not base64", domain, p.config.RegistryAuthFile)
		}
		auth.Username, auth.Password, _ = strings.Cut(string(plain), ":")
		auth.Auth = ""
	}
	auth.ServerAddress = domain
	return authconfig.Encode(auth)
}
