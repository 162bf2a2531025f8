// Package docker is the provider whose workspaces are containers of one engine: Docker, or what speaks its API, such as
// Podman.
//
// # What is kept where
//
// Everything is in the engine, as labels of the container, so that nothing needs the database to be recognised:
//
//	dev.prewarm.installation, .workspace, .incarnation   the tags; what lacks one of them is not ours and never touched
//	dev.prewarm.name        the workspace's name, which stays when somebody renames the container
//	dev.prewarm.readiness   the condition of its spec, for Ready, which is given no spec
//	dev.prewarm.replaces    after a reset: the id of the container before, which the database may still have
//	dev.prewarm.organization, .template, .preset         for people
//
// The provider's id of a workspace is the id of its container: it names one container for ever, also where a second one
// carries the same labels.
//
// # Create, and what may happen at any point of it
//
//	image there? -> container created -> agent and token copied into it -> further networks -> started
//
// The engine lets one container have a name, which makes one of any number of creates win; the others find it by its
// labels and go on from where it is. One that was cut off leaves a container that is created but not started, or none.
// The request that creates the container is waited for a little even when the call's context has ended: the engine
// carries it out anyway, and what it makes after a clean-up by name would stay until the next sweep.
//
// # Images
//
// An image that is missing is pulled once, whoever asks for it meanwhile, and the pull goes on when the create that began
// it has given up: the next finds the image. With `pull: always` an image is asked for again when the last answer is
// older than pull_every, never at each create. Credentials are read from a file of the server at each pull.
//
// # The agent
//
// is the prewarm binary itself, copied into the container before it starts, so that an image needs nothing. The token is
// in a file there that only the container's user may read: not in its configuration, which `docker inspect` shows.
//
// # Site
//
// An engine that is reached by a Unix socket is reached from one machine. Its id is the provider's site, so that work goes
// to replicas that reach that very engine.
package docker
