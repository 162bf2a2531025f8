package gitea

import (
	"golang.org/x/xerrors"

	"github.com/prewarm-dev/prewarm/coderd/demand/forge"
)

func (kind) Connect(forge.Connection) (forge.Forge, error) {
	return nil, xerrors.Errorf("connect: %w", forge.ErrUnsupported)
}
