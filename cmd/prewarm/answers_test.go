package main

import (
	"encoding/json"
	"net/http"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/prewarm-dev/prewarm/coderd/sdk"
)

func id(n byte) uuid.UUID { return uuid.UUID{6: 0x40, 8: 0x80, 15: n} }

func before(d time.Duration) time.Time { return now.Add(-d) }

func ptr[T any](v T) *T { return &v }

var testPreset = sdk.Preset{
	ID: id(1), Organization: "default", Template: "quickstart", Preset: "default", Version: 2, Provider: "local",
	Parameters: map[string]string{"size": "small", "colour": "a b"}, Pool: true, TTL: "8h0m0s", Priority: 5,
	Counts:   sdk.Counts{Desired: 3, Actual: 2, Eligible: 2, Starting: 1, Claimed: 4, Outdated: 1},
	Reasons:  []string{"create 1: desired 3, actual 2", "replace 1 of version 1"},
	PassedAt: ptr(before(3 * time.Second)),
}

var testSchedule = sdk.Schedule{
	Template: "quickstart", Preset: "default", Timezone: "Europe/Berlin", Instances: 1,
	Ranges: []sdk.ScheduleRange{{Cron: "* 8-18 * * 1-5", Instances: 5}},
	Windows: []sdk.ScheduleWindow{
		{From: berlin(10, 17, 20), To: berlin(10, 19, 0), Instances: 5, Cron: "* 8-18 * * 1-5"},
		{From: berlin(10, 19, 0), To: berlin(17, 17, 20), Instances: 1},
	},
}

var testFailures = sdk.Failures{
	Template: "quickstart", Preset: "default", Streak: 3, Permanent: 3, Since: ptr(before(20 * time.Second)),
	Causes: []sdk.Cause{
		{
			Cause: "image golang:N not found", Count: 3, Permanent: true, FirstAt: before(20 * time.Second),
			LastAt: before(5 * time.Second), Fault: "setup ended with exit status 1; its last output:\nimage golang:1.26 not found\n", Message: "image golang:1.26 not found (setup ended with exit status 1)", Workspace: "prebuild-a", Version: 2,
		},
		{
			Cause: "connection refused", Count: 12, FirstAt: before(48 * time.Hour), LastAt: before(47 * time.Hour),
			Fault: "connection refused", Message: "connection refused", Workspace: "prebuild-b", Version: 1,
		},
	},
}

var testInventories = []sdk.Inventory{
	{
		Provider: "openstack",
		Last: &sdk.LastInventory{
			EndedAt: before(time.Minute), Outcome: "incomplete", Error: "no answer", NextAt: before(-time.Minute),
		},
		Breaker: &sdk.Breaker{Reason: "the listing failed: no answer", Since: before(time.Minute), Clean: 1, CloseAt: 3},
		Entries: []sdk.InventoryEntry{
			{Verdict: "ok", Workspace: "prebuild-a", State: "ready", Resource: "prebuild-a", ProviderID: "x", Status: "running"},
			{
				Verdict: "orphan", Resource: "prebuild-b", ProviderID: "y", Status: "running", Detail: "no row has it", Seen: 1,
				Since: ptr(before(time.Minute)), Next: "would be deleted: the provider is not confirmed",
			},
			{
				Verdict: "missing", Workspace: "prebuild-c", State: "ready", Detail: "the provider does not have it", Seen: 2,
				Since: ptr(before(2 * time.Minute)), Next: "will be quarantined and replaced",
			},
		},
	},
	{Provider: "old", Confirmed: true, Error: "config_file: no such file", Entries: []sdk.InventoryEntry{}},
}

func berlin(day, hour, minute int) time.Time {
	location, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		panic(err)
	}
	return time.Date(2026, 7, day, hour, minute, 0, 0, location)
}

var testPresets = []sdk.Preset{
	testPreset,
	{
		ID: id(2), Organization: "default", Template: "ci", Preset: "large", Version: 1, Provider: "docker", Pool: true,
		Counts: sdk.Counts{Desired: 10}, Error: "image not found:\n\x1b[31mevil",
	},
	{ID: id(3), Organization: "default", Template: "ci", Preset: "by-hand", Version: 1, Provider: "docker"},
}

var testWorkspace = sdk.Workspace{
	ID: id(10), Name: "prebuild-aebagbafaydqqcikbmga2", Organization: "default", Template: "quickstart",
	Preset: "default", Version: 2, Provider: "local", State: "claimed", Incarnation: 1, Owner: "alice",
	ClaimID: ptr(id(20)), ProviderID: "local-1", Site: "site-1", OSName: "debian", OSVersion: "12",
	Addresses:   []sdk.Address{{Type: "tcp", Address: "127.0.0.1:40001"}},
	Environment: map[string]string{"PORT": "40001"}, Parameters: map[string]string{"size": "small"},
	CreatedAt: before(2 * time.Hour), StateAt: before(5 * time.Minute), ReadyAt: ptr(before(119 * time.Minute)),
	ClaimedAt: ptr(before(5 * time.Minute)), ExpiresAt: ptr(now.Add(6 * time.Hour)),
}

func shownWorkspace() sdk.Workspace {
	w := testWorkspace
	w.History = []sdk.Transition{
		{
			To: "provisioning", At: before(2 * time.Hour), Actor: "prewarm", Reason: "below desired", Incarnation: 1,
			LastedMS: ptr(int64(60_000)),
		},
		{
			From: "provisioning", To: "starting", At: before(119 * time.Minute), Actor: "prewarm", Incarnation: 1,
			Reason: "created", Job: "create", Attempt: 3, Failures: 2, Error: "out of\ncapacity", LastedMS: ptr(int64(2345)),
		},
		{
			From: "starting", To: "ready", At: before(119 * time.Minute), Actor: "prewarm", Incarnation: 1,
			LastedMS: ptr(int64(114 * 60_000)),
		},
		{From: "ready", To: "claimed", At: before(5 * time.Minute), Actor: "alice", Incarnation: 2},
	}
	w.Resources = []string{"disk.a", "net.a"}
	w.Drift = &sdk.Drift{LookedAt: ptr(before(3 * time.Hour)), Resources: []string{"disk.a"}}
	w.Evidence = "installing\n\x1b[31mno space left\n"
	w.Agent = &sdk.Agent{
		Status: "claim-ready", HeartbeatAt: ptr(before(4 * time.Second)), ClaimSeenAt: ptr(before(5 * time.Minute)),
		ClaimReadyAt: ptr(before(4 * time.Minute)), Recoveries: 1,
	}
	w.Job = &sdk.Job{
		ID: id(30), Kind: "drain", State: "running", Attempt: 2, Failures: 1, DueAt: now, LeasedBy: "r1", LastError: "busy",
	}
	return w
}

var testTemplate = sdk.Template{
	ID: id(40), Organization: "default", Name: "quickstart", Description: "A first template", Provider: "local",
	ActiveVersion: 2, KeepOutdated: true, BootTimeout: "20m0s", Presets: []string{"default", "large"},
	KeepFailures: 2, KeepTTL: "24h0m0s", MaxUses: 10,
	CreatedAt: before(72 * time.Hour), UpdatedAt: before(time.Hour),
}

func shownTemplate() sdk.Template {
	t := testTemplate
	t.Versions = []sdk.Version{
		{
			ID: id(42), Number: 2, Hash: "b2c4", Active: true, Provider: "local",
			Spec: json.RawMessage(`{"command":["sh"]}`), CreatedAt: before(time.Hour), CreatedBy: "alice",
		},
		{
			ID: id(41), Number: 1, Hash: "a1b3", Provider: "local", Spec: json.RawMessage(`{"command":["a<b"]}`),
			CreatedAt: before(72 * time.Hour), CreatedBy: "owner",
		},
	}
	return t
}

var testClaim = sdk.Claim{
	ClaimID: id(20), WorkspaceID: ptr(id(10)), Name: testWorkspace.Name, Template: "quickstart", Preset: "default",
	Outcome: "hit", WaitedMS: 4, ProviderID: "local-1", Addresses: testWorkspace.Addresses,
	Environment: map[string]string{"PORT": "40001", "MOTD": "it's\nfine; $(exit 1) `x` \\"},
}

var testIdentity = sdk.Identity{
	UserID: id(50), User: "alice", Organization: "default", Role: "template-admin", TokenID: id(51), TokenName: "laptop",
	ExpiresAt: ptr(now.Add(30 * 24 * time.Hour)),
}

var testToken = sdk.Token{
	ID: id(51), Name: "laptop", User: "alice", Role: "member", Hint: "pw_abcd", CreatedAt: before(48 * time.Hour),
	LastUsedAt: ptr(before(time.Minute)),
}

// answers is a server on which all is well.
func answers(t *testing.T) map[string]answer {
	t.Helper()
	canned := func(value any) answer { return answer{body: mustJSON(t, value)} }
	workspace := "/workspaces/" + testWorkspace.Name
	releasing, deleting, retrying, kept := testWorkspace, testWorkspace, testWorkspace, testWorkspace
	releasing.State, deleting.State, retrying.State, kept.State = "draining", "deleting", "starting", "quarantined"
	leased := testWorkspace
	leased.LeaseUntil = ptr(now.Add(2 * time.Hour))
	revoked := testToken
	revoked.ID, revoked.Name, revoked.RevokedAt, revoked.LastUsedAt = id(52), "old", ptr(before(time.Hour)), nil
	return map[string]answer{
		"GET /presets":                           canned(testPresets),
		"GET /presets/quickstart/default":        canned(testPreset),
		"GET /presets/quickstart/default/size":   canned(sizedPreset()),
		"GET /presets/ci/large/size":             canned(unclaimedPreset()),
		"GET /presets/quickstart/default/replay": canned(sdk.PresetReplay{PresetPast: busyPast(), Outcomes: testOutcomes}),
		"GET /presets/ci/large/replay": canned(sdk.PresetReplay{
			PresetPast: unclaimedPreset().PresetPast, Outcomes: unclaimedPreset().Outcomes,
		}),
		"GET /presets/quickstart/default/failures":    canned(testFailures),
		"POST /presets/quickstart/default/reset":      {status: 204},
		"POST /presets/quickstart/default/invalidate": {status: 204},
		"POST /templates/quickstart/rollback":         canned(sdk.RollbackResult{Template: "quickstart", From: 2, To: 1}),
		"GET /presets/quickstart/default/schedule":    canned(testSchedule),
		"GET /presets/quickstart/default/explain":     canned(testExplanation),
		"POST /plans":                            canned(testPlan),
		"POST /presets/quickstart/default/nudge": {status: 204},
		"POST /claims":                           canned(testClaim),
		"GET /workspaces": canned(sdk.WorkspaceList{Workspaces: []sdk.Workspace{
			testWorkspace,
			{
				ID: id(11), Name: "prebuild-b", Template: "ci", Preset: "large", Version: 1, State: "quarantined",
				Owner: "prewarm", Provider: "docker", Fault: "exit status 137", StateAt: before(time.Second / 2),
			},
			{
				ID: id(12), Name: "prebuild-c", Template: "ci", Preset: "large", Version: 1, State: "deleting", Owner: "prewarm",
				Provider: "docker", StateAt: before(time.Minute),
				Job: &sdk.Job{Kind: "delete", State: "pending", Failures: 4, LastError: "credentials expired"},
			},
		}}),
		"GET " + workspace: canned(shownWorkspace()),
		"GET " + workspace + "/processes": canned([]sdk.Process{
			{ID: id(80), Command: []string{"make", "test"}, Dir: "/home", PID: 17, StartedAt: before(time.Minute), Output: 4096},
			{
				ID: id(81), Command: []string{"sh", "-c", "exit 3"}, Dir: "/home", PID: 18, StartedAt: before(time.Hour),
				EndedAt: ptr(before(time.Minute)), ExitCode: ptr(3),
			},
		}),
		"POST " + workspace + "/processes":                                canned(sdk.Process{ID: id(80), Command: []string{"make", "test"}, Dir: "/home/src", PID: 17, StartedAt: now}),
		"POST " + workspace + "/processes/" + id(80).String() + "/signal": {status: http.StatusNoContent},
		"GET " + workspace + "/ports":                                     canned([]sdk.Port{{Port: 22}, {Port: 3000, Process: "node", PID: 4711}, {Port: 8080, Process: "ev\x1b[31mil"}}),
		"POST " + workspace + "/ports/3000/link":                          canned(sdk.PortLink{URL: "https://3000--prebuild-x.ws.example.com/.prewarm/enter?link=eyJ", ExpiresAt: now}),
		"GET " + workspace + "/logs":                                      {body: "setting up\nready\n"},
		"POST " + workspace + "/release":                                  canned(releasing),
		"POST " + workspace + "/renew":                                    canned(leased),
		"POST " + workspace + "/retry":                                    canned(retrying),
		"POST " + workspace + "/keep":                                     canned(kept),
		"DELETE " + workspace:                                             canned(deleting),
		"GET /templates":                                                  canned([]sdk.Template{testTemplate}),
		"GET /templates/quickstart":                                       canned(shownTemplate()),
		"GET /templates/quickstart/versions": canned(sdk.TemplateVersionList{Next: 1, Versions: []sdk.TemplateVersion{
			{
				ID: id(42), Number: 2, Hash: "b2c4", Active: true, Provider: "local", CreatedAt: before(time.Hour),
				CreatedBy: "alice", Unclaimed: 3, Claimed: 1,
			},
			{ID: id(41), Number: 1, Hash: "a1b3", Provider: "local", CreatedAt: before(72 * time.Hour), CreatedBy: "owner"},
		}}),
		"GET /templates/quickstart/export": canned(sdk.TemplateFile{
			Template: "quickstart", Document: "templates:\n- name: quickstart\n  provider: local\n",
		}),
		"GET /templates/quickstart/versions/2": canned(sdk.TemplateVersionSpec{
			Version: shownTemplate().Versions[0], Text: "provider: local\nspec:\n  command:\n  - sh\n",
		}),
		"POST /templates/quickstart/deprecate":   {status: 204},
		"DELETE /templates/quickstart/deprecate": {status: 204},
		"DELETE /templates/quickstart":           {status: 204},
		"POST /apply": canned(sdk.ApplyResult{Changes: []sdk.Change{
			{Kind: "template", Name: "quickstart", Action: "create"},
			{
				Kind: "preset", Name: "quickstart/default", Action: "update", Fields: []string{"instances: 3 -> 5", "ttl: 1h"},
				Effect: "2 more prebuilds",
			},
		}}),
		"GET /replicas": canned([]sdk.Replica{
			{
				Name: "r1", Version: "v1.2.3", Address: "127.0.0.1:7080", Sites: []string{"site-1"}, State: "alive",
				StartedAt: before(26 * time.Hour), HeartbeatAt: before(2 * time.Second), LastPass: true,
			},
			{
				Name: "r2", Version: "v1.2.3", Address: "127.0.0.1:7081", State: "stale", StartedAt: before(time.Hour),
				HeartbeatAt: before(3 * time.Minute),
			},
		}),
		"GET /providers": canned([]sdk.Provider{
			{Name: "local", Kind: "local", Can: []string{"exec", "logs"}},
			{Name: "openstack", Kind: "external", Can: []string{"stop", "agent"}, Protocol: "v0.1.1", Schema: true, Confirmed: true},
			{Name: "incus", Kind: "external", Can: []string{"stop"}, Protocol: "v0.1.0", NoAgent: "it gives no schema"},
			{Name: "old", Kind: "external", Can: []string{}, Error: "config_file: no such file\n\x1b[31mevil"},
			{Name: "away", Kind: "sim", Can: []string{}, Confirmed: true, DeletedAt: ptr(before(3 * time.Minute)), Claimed: 1},
			{Name: "swept", Kind: "sim", Can: []string{}, Confirmed: true, DeletedAt: ptr(before(time.Minute))},
		}),
		"POST /providers/openstack/resume": canned(sdk.Provider{Name: "openstack", Kind: "external", Can: []string{}, Confirmed: true}),
		"DELETE /providers/openstack": canned(sdk.Provider{
			Name: "openstack", Kind: "external", Can: []string{}, DeletedAt: ptr(now), Claimed: 1, Unclaimed: 2,
		}),
		"POST /providers/openstack/confirm": canned(sdk.Provider{Name: "openstack", Kind: "external", Can: []string{}, Confirmed: true}),
		"GET /inventory":                    canned(testInventories),
		"GET /inventory?provider=openstack": canned(testInventories[:1]),
		"POST /providers/openstack/check": {body: mustJSON(t, sdk.CheckVerdict{
			Case: "GetUnknown", About: "what does not exist is not found", Outcome: "passed", TookMS: 1234,
		}) + "\n" + mustJSON(t, sdk.CheckVerdict{
			Case: "StopAndStart", About: "a workspace can be stopped and started", Outcome: "not_offered",
		}) + "\n"},
		"POST /providers/busy/check": {body: mustJSON(t, sdk.CheckVerdict{
			Case: "DeletesAtOnce", About: "five deletes of one workspace at once all succeed", Outcome: "failed", Nicer: true,
			Detail: "delete instance: it is busy", TookMS: 900,
		}) + "\n"},
		"POST /providers/old/check": {body: mustJSON(t, sdk.CheckVerdict{
			Case: "DeleteTwice", About: "a delete that is repeated succeeds, and leaves nothing", Outcome: "failed",
			Detail: "delete again: no such server\nclean up: \x1b[31mevil", TookMS: 61_000,
		}) + "\n"},
		"POST /providers/mute/check": {body: ""},
		"GET /audit": canned(sdk.AuditList{Next: 7, Entries: []sdk.AuditEntry{
			{
				ID: 8, At: before(time.Minute), Actor: "alice", Action: "workspace.claim", TargetType: "workspace",
				TargetID: id(10).String(), TargetName: testWorkspace.Name, After: json.RawMessage(`{"state":"claimed"}`),
				Source: "127.0.0.1",
			},
			{
				ID: 7, At: before(time.Hour), Actor: "prewarm", Action: "workspace.create", TargetType: "workspace",
				TargetID: id(10).String(), Reason: "below desired", Source: "r1",
			},
		}}),
		"GET /whoami":           canned(testIdentity),
		"POST /login":           canned(testIdentity),
		"GET /tokens":           canned([]sdk.Token{testToken, revoked}),
		"POST /tokens":          canned(sdk.CreatedToken{Token: testToken, Secret: "pw_secret"}),
		"DELETE /tokens/laptop": {status: 204},
		"GET /quotas":           canned([]sdk.Quota{{Organization: "default", Maximum: ptr(int32(50)), Claimed: 4}}),
		"PUT /quotas":           canned(sdk.Quota{Organization: "default", MaximumPerUser: ptr(int32(3)), Claimed: 4}),
		"GET /pauses": canned([]sdk.Pause{
			{
				Scope: "global", Reason: "moving", CreatedBy: "alice", CreatedAt: before(time.Hour),
				ExpiresAt: ptr(now.Add(time.Hour)),
			},
			{
				Scope: "preset", Target: "quickstart/default", Reason: "looking", CreatedBy: "bob",
				CreatedAt: before(time.Minute),
			},
		}),
		"POST /pauses": canned(sdk.Pause{
			Scope: "preset", Target: "quickstart/default", Reason: "looking",
			CreatedBy: "alice", CreatedAt: now, ExpiresAt: ptr(now.Add(2 * time.Hour)),
		}),
		"DELETE /pauses": {status: 204},
		"GET /notifications": canned([]sdk.NotificationStatus{
			{
				Notification: sdk.Notification{
					ID: id(71), Kind: "hard-limit", Installation: id(70), Template: "quickstart", Preset: "default",
					Detail: "hard limit: 3 failed creates in a row", At: before(time.Hour),
				},
				State: "pending", Attempts: 4, LastError: "https://example.com answered with status 500",
			},
			{
				Notification: sdk.Notification{
					ID: id(72), Kind: "stale", Installation: id(70), Detail: "no full pass has succeeded for 2m0s",
					At: before(2 * time.Hour),
				},
				State: "delivered", Attempts: 1, DeliveredAt: new(before(2 * time.Hour)), EndedAt: new(before(time.Hour)),
			},
		}),
		"POST /notifications/test": canned(sdk.NotificationStatus{
			Notification: sdk.Notification{
				ID: id(73), Kind: "test", Installation: id(70), Detail: "a test, asked for by alice", At: before(0),
			},
			State: "delivered", Attempts: 1, DeliveredAt: new(before(0)),
		}),
		"GET /forges":             canned([]sdk.ForgeEntity{testForge}),
		"GET /forges/acme":        canned(testForge),
		"PUT /forges/acme":        canned(sdk.SavedForgeEntity{ForgeEntity: testForge, WebhookSecret: "made-by-chance"}),
		"POST /forges/acme/check": canned(testForgeCheck),
		"GET /forges/credentials": canned([]sdk.ForgeCredential{testCredential}),

		"PUT /forges/credentials/acme-app": canned(testCredential),
		"GET /forge-jobs":                  canned(sdk.ForgeJobList{Jobs: []sdk.ForgeJob{testForgeJob}}),
		"GET /runners":                     canned(sdk.RunnerList{Runners: []sdk.Runner{testRunner}}),
		"GET /signing-keys":                canned([]sdk.SigningKey{{ID: id(60), CreatedAt: before(time.Hour), Signs: true, Agents: 3}}),
		"POST /signing-keys": canned([]sdk.SigningKey{
			{ID: id(61), CreatedAt: now, Signs: true},
			{ID: id(60), CreatedAt: before(time.Hour), RetiredAt: ptr(now), Agents: 3},
		}),
	}
}
