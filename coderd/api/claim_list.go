package api

import (
	"context"
	"net/http"
	"time"

	"github.com/google/uuid"
	"golang.org/x/xerrors"

	"github.com/prewarm-dev/prewarm/coderd/auth"
	"github.com/prewarm-dev/prewarm/coderd/lists"
	"github.com/prewarm-dev/prewarm/coderd/sdk"
	"github.com/prewarm-dev/prewarm/database"
	"github.com/prewarm-dev/prewarm/database/viewsdb"
)

func (s *server) registerClaimList() {
	answer(s, operation{
		id: "list-claims", method: http.MethodGet, path: "/claims", action: auth.ActReadWorkspace, tag: "claims",
		summary:     "List claims: the line of those that wait, or the others, newest first",
		description: "A search of those that are over ends a page after some thousands of them, even an empty one: next goes on.",
	}, s.listClaims)
}

// mostTogether is how many claims one request may be: the maximum of its count.
const mostTogether = 100

// placed is a claim of a page: where it is in the order of the page, and in its line if it waits.
type placed struct {
	id    uuid.UUID
	at    time.Time
	place int32
}

func (s *server) listClaims(ctx context.Context, who auth.Identity, in *sdk.ClaimFilter) (sdk.ClaimList, error) {
	page, end, err := s.claimPage(ctx, who, in)
	if err != nil {
		return sdk.ClaimList{}, err
	}
	list := sdk.ClaimList{Claims: []sdk.ClaimRecord{}}
	if end != nil {
		list.Next = encodeCursor(end.at, end.id)
	}
	page, more := firstOf(page, in.Limit)
	if more {
		last := page[len(page)-1]
		list.Next = encodeCursor(last.at, last.id)
	}
	rows, err := viewsdb.New(s.Store).ClaimViews(ctx, lists.Of(page, func(p placed) uuid.UUID { return p.id }))
	if err != nil {
		return sdk.ClaimList{}, xerrors.Errorf("list claims: %w", err)
	}
	byID := lists.Keyed(rows, func(row viewsdb.ClaimViewsRow) (uuid.UUID, viewsdb.ClaimViewsRow) { return row.ID, row })
	for _, p := range page {
		if row, found := byID[p.id]; found { // else it was purged between the two statements
			list.Claims = append(list.Claims, claimRecordOf(row, p.place))
		}
	}
	return list, nil
}

// claimPage is a page, and one more where there is another page; and where a search stopped, if there is more to search.
func (s *server) claimPage(ctx context.Context, who auth.Identity, in *sdk.ClaimFilter) ([]placed, *placed, error) {
	user, err := s.ownerFilter(ctx, who, in.User)
	if err != nil {
		return nil, nil, err
	}
	if in.Group != "" {
		page, err := s.claimsOfGroup(ctx, who, in.Group)
		return page, nil, err
	}
	afterAt, afterID, err := afterOf(in.After)
	if err != nil {
		return nil, nil, err
	}
	outcome := database.OrNull(database.ClaimOutcome(in.Outcome))
	switch state := database.ClaimState(in.State); state {
	case database.ClaimStateWaiting:
		if outcome != nil {
			return nil, nil, nil // they have none yet
		}
		rows, err := viewsdb.New(s.Store).WaitingClaims(ctx, viewsdb.WaitingClaimsParams{
			OrganizationID: who.OrganizationID, UserID: user, Template: database.OrNull(in.Template), Preset: database.OrNull(in.Preset),
			Words: patterns(in.Q), AfterAt: afterAt, AfterID: afterID, MaxClaims: in.Limit + 1,
		})
		if err != nil {
			return nil, nil, xerrors.Errorf("find waiting claims: %w", err)
		}
		return lists.Of(rows, func(r viewsdb.WaitingClaimsRow) placed { return placed{r.ID, r.At, r.Place} }), nil, nil
	case database.ClaimStateBound:
		page, err := s.boundClaims(ctx, viewsdb.BoundClaimsParams{
			OrganizationID: who.OrganizationID, Template: database.OrNull(in.Template), Preset: database.OrNull(in.Preset),
			Outcome: outcome, Words: patterns(in.Q), AfterAt: afterAt, AfterID: afterID, MaxClaims: in.Limit + 1,
		}, user)
		return page, nil, err
	default:
		return s.endedClaims(ctx, viewsdb.EndedClaimsParams{
			State: state, OrganizationID: who.OrganizationID, UserID: user, Template: database.OrNull(in.Template), Words: patterns(in.Q),
			Preset: database.OrNull(in.Preset), Outcome: outcome, AfterAt: afterAt, AfterID: afterID, MaxClaims: in.Limit + 1,
		})
	}
}

// claimsOfGroup are the claims of one request with a count, of which a member sees the own ones.
func (s *server) claimsOfGroup(ctx context.Context, who auth.Identity, group string) ([]placed, error) {
	id, err := uuid.Parse(group)
	if err != nil {
		return nil, auth.Refuse(auth.ErrInvalid, "group: %q is no id", group)
	}
	rows, err := viewsdb.New(s.Store).ClaimsOfGroup(ctx, viewsdb.ClaimsOfGroupParams{
		GroupID: id, OrganizationID: who.OrganizationID, UserID: who.OnlyOwn(auth.ActReadWorkspace), MaxClaims: mostTogether,
	})
	if err != nil {
		return nil, xerrors.Errorf("find claims of a request: %w", err)
	}
	return lists.Of(rows, func(r viewsdb.ClaimsOfGroupRow) placed { return placed{id: r.ID, at: r.At} }), nil
}

// endedClaims is a page of those that are over. A search among them goes as far as their window.
func (s *server) endedClaims(ctx context.Context, params viewsdb.EndedClaimsParams) ([]placed, *placed, error) {
	var end *placed
	if len(params.Words) > 0 {
		window, err := viewsdb.New(s.Store).EndedClaimsWindow(ctx, viewsdb.EndedClaimsWindowParams{
			State: params.State, OrganizationID: params.OrganizationID, AfterAt: params.AfterAt, AfterID: params.AfterID,
			Size: searched - 1,
		})
		switch {
		case err == nil:
			end = &placed{id: window.ID, at: window.At}
			params.BottomAt, params.BottomID = &window.At, uuid.NullUUID{UUID: window.ID, Valid: true}
		case !database.NoRows(err):
			return nil, nil, xerrors.Errorf("find how far to search claims: %w", err)
		}
	}
	rows, err := viewsdb.New(s.Store).EndedClaims(ctx, params)
	if err != nil {
		return nil, nil, xerrors.Errorf("find claims that are over: %w", err)
	}
	page := lists.Of(rows, func(r viewsdb.EndedClaimsRow) placed { return placed{id: r.ID, at: r.At} })
	return page, end, nil
}

// boundClaims is a page of those that hold a workspace, of everybody or of one user.
func (s *server) boundClaims(
	ctx context.Context, params viewsdb.BoundClaimsParams, user uuid.NullUUID,
) ([]placed, error) {
	if user.Valid {
		rows, err := viewsdb.New(s.Store).BoundClaimsOf(ctx, viewsdb.BoundClaimsOfParams{
			OrganizationID: params.OrganizationID, UserID: user.UUID, Template: params.Template, Preset: params.Preset,
			Words: params.Words, Outcome: params.Outcome, AfterAt: params.AfterAt, AfterID: params.AfterID, MaxClaims: params.MaxClaims,
		})
		if err != nil {
			return nil, xerrors.Errorf("find bound claims of a user: %w", err)
		}
		return lists.Of(rows, func(r viewsdb.BoundClaimsOfRow) placed { return placed{id: r.ID, at: r.At} }), nil
	}
	rows, err := viewsdb.New(s.Store).BoundClaims(ctx, params)
	if err != nil {
		return nil, xerrors.Errorf("find bound claims: %w", err)
	}
	return lists.Of(rows, func(r viewsdb.BoundClaimsRow) placed { return placed{id: r.ID, at: r.At} }), nil
}

func claimRecordOf(row viewsdb.ClaimViewsRow, place int32) sdk.ClaimRecord {
	c := sdk.ClaimRecord{
		ClaimID: row.ID, State: string(row.State), Mode: string(row.Mode), User: row.UserName, Template: row.Template,
		Preset: row.Preset, Workspace: row.Workspace, Standby: row.FromStandby, Cold: row.Cold, Place: int(place),
		Reason: row.Reason, ReasonCode: row.ReasonCode, CreatedAt: row.CreatedAt, BoundAt: row.BoundAt, ReleasedAt: row.ReleasedAt,
		WaitedMS: *rounded(max(0, row.WaitMs)), Outcome: string(database.OrZero(row.Outcome)), Lease: inSeconds(row.LeaseS),
	}
	switch row.State {
	case database.ClaimStateWaiting:
		c.DeadlineAt = row.DeadlineAt
	case database.ClaimStateBound:
		c.LeaseUntil = row.LeaseUntil
	case database.ClaimStateMissed:
		c.WaitedMS = 0 // how long is not on record
	case database.ClaimStateReleased:
	}
	if row.GroupID.Valid && row.GroupSize > 1 {
		c.Group = &sdk.ClaimGroup{
			ID: row.GroupID.UUID, Count: int(row.GroupSize), Alike: int(row.GroupAlike), Ready: int(min(row.GroupReady, row.GroupSize)),
		}
	}
	c.Receipt = storedReceipt(viewsdb.ClaimReceiptRow{
		Outcome: row.Outcome, WaitMs: row.WaitMs, Told: row.Told, ToldMs: row.ToldMs, Ready: row.Ready, HookMs: row.HookMs,
	})
	return c
}
