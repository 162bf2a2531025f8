package forge

import (
	"context"
	"errors"
	"strings"

	"github.com/google/uuid"
)

// ErrNoEntity: no entity has that name or id, or it is deleted.
var ErrNoEntity = errors.New("there is no such forge")

// Entity is one whose jobs Prewarm has runners for.
type Entity struct {
	ID             uuid.UUID
	OrganizationID uuid.UUID
	Name           string
	Kind           Kind
	KindName       string
	ForgeURL       string
	Scope          Scope
	Path           string
	Balance        string
	HookID         int64    // 0: none
	Secrets        []string // of webhooks, good now: the current one, and the one before while it overlaps
	Stopped        bool
	Err            error // why Secrets is empty; nil where it is not
}

// Covers says whether an entity's runners take jobs of a repository. What an enterprise covers no name says: its own word is
// believed. In SQL it is part of prewarm_may_run.
func Covers(scope Scope, path, repository string) bool {
	switch scope {
	case Repository:
		return strings.EqualFold(path, repository)
	case Organization:
		owner, _, _ := strings.Cut(repository, "/")
		return strings.EqualFold(path, owner)
	case Enterprise:
		return true
	}
	return false
}

// Clients finds the clients of entities.
type Clients interface {
	Forge(ctx context.Context, entityID uuid.UUID) (Forge, error)
}

// Directory knows the entities. What it says of one may be a second old.
type Directory interface {
	Clients
	// ByName and ByID find one; ErrNoEntity.
	ByName(ctx context.Context, name string) (Entity, error)
	ByID(ctx context.Context, id uuid.UUID) (Entity, error)
}
