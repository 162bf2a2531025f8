package main

import (
	"time"

	"github.com/prewarm-dev/prewarm/coderd/sdk"
)

var testForge = sdk.ForgeEntity{
	ID: id(80), Name: "acme", Kind: "github", Scope: "organization", Path: "acme", Credential: "acme-app", Balance: "pack",
	WebhookURL: "https://prewarm.example/webhooks/acme", HookID: 7, Presets: []string{"runners/linux"}, Queued: 3,
	Unserved: 1, InProgress: 2, Runners: 4, CreatedAt: before(time.Hour),
	Status: sdk.ForgeStatus{
		Error: "the forge answered 502\n\x1b[31mevil", SucceededAt: ptr(before(time.Minute)), RateLimit: 5000, RateRemaining: 12,
		DeliveryAt: ptr(before(time.Second)),
	},
}

var testCredential = sdk.ForgeCredential{
	Name: "acme-app", Kind: "github", URL: "https://api.github.com", Auth: "app", AppID: 1, InstallationID: 2, SealedBy: "k1",
	Entities: 1, CreatedAt: before(time.Hour), UpdatedAt: before(time.Minute),
}

var testForgeCheck = sdk.ForgeCheck{Steps: []sdk.ForgeCheckStep{
	{Name: "runners", Outcome: "failed", Detail: "the forge refuses the credential"},
	{Name: "deliveries", Outcome: "not_offered"},
}}

var testForgeJob = sdk.ForgeJob{
	ID: id(81), Entity: "acme", JobID: 99, Attempt: 1, Repository: "acme/shop", Name: "build", Labels: []string{"linux"},
	State: "queued", Unserved: "no preset has label linux", QueuedAt: before(time.Minute), WaitS: 60,
}

var testRunner = sdk.Runner{
	Name: "prebuild-a", WorkspaceID: id(10), State: "claimed", Status: "active", StatusAt: before(time.Minute), Entity: "acme",
	Template: "runners", Preset: "linux", Labels: []string{"linux"}, Job: &testForgeJob, CreatedAt: before(time.Hour),
}
