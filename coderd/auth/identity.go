package auth

import (
	"time"

	"github.com/google/uuid"

	"github.com/prewarm-dev/prewarm/database"
)

// The rows that the first migration inserts.
var (
	// DefaultOrganizationID is the organization that every installation has; its name is "default".
	DefaultOrganizationID = uuid.MustParse("00000000-0000-4000-8000-000000000001")
	// BuiltinUserID is the identity that owns prebuilds and acts for reconciler and workers (C16).
	BuiltinUserID = uuid.MustParse("00000000-0000-4000-8000-000000000002")
)

// Principal is who a token speaks for, with all memberships.
type Principal struct {
	UserID    uuid.UUID
	User      string
	TokenID   uuid.UUID
	TokenName string
	// CredentialID is the token's id, or that of the browser's session that stands for the token.
	CredentialID uuid.UUID
	ExpiresAt    *time.Time
	Memberships  []Membership
}

// Membership is a role in an organization.
type Membership struct {
	OrganizationID uuid.UUID
	Organization   string
	Role           database.Role
}

// Identity is a principal in one organization: what a request acts as.
type Identity struct {
	Principal
	Membership
	// Source is where the request came from, for the audit log.
	Source string
}

// In is the principal in the organization of that name; false if it is not a member.
func (p Principal) In(organization string) (Identity, bool) {
	for _, m := range p.Memberships {
		if m.Organization == organization {
			return Identity{Principal: p, Membership: m}, true
		}
	}
	return Identity{}, false
}

// Part says how far the identity reaches in an action.
func (i Identity) Part(action Action) Part { return PartOf(i.Role, action) }

// May says whether the identity may do something to what belongs to owner.
func (i Identity) May(action Action, owner uuid.UUID) bool {
	switch i.Part(action) {
	case Any:
		return true
	case Own:
		return owner == i.UserID
	default:
		return false
	}
}

// OnlyOwn restricts a query to one's own rows where the action reaches no further.
func (i Identity) OnlyOwn(action Action) uuid.NullUUID {
	return uuid.NullUUID{UUID: i.UserID, Valid: i.Part(action) != Any}
}
