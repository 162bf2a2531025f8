// Package kubernetes is the provider whose workspaces are pods in one namespace of a cluster.
//
// # What is kept where
//
// Everything is in the cluster, on the pod, so that nothing needs the database to be recognised:
//
//	prewarm.dev/installation, /workspace, /incarnation, /name   labels: the tags. What lacks one of them, or has another
//	                                                            name than its label says, is not ours and never touched
//	prewarm.dev/claim, /owner   labels of a claimed one, which follow the claim (Mark); the owner is an annotation too
//	prewarm.dev/organization, /template, /preset                annotations, for people
//	kubectl.kubernetes.io/default-container                     the container that is the workspace: the first, where the
//	                                                            spec names none
//
// The pod has the workspace's name. The provider's id of a workspace is that name with the pod's UID: it means one pod for
// ever, also where a later one has the same name.
//
// A workspace with volumes hangs on the first of its volume claims, the anchor, by whose UID it is known: the pod may come and go.
//
//	prewarm.dev/volume          label of a volume claim: the template it was made of
//	prewarm.dev/pod, /stopped   annotations of the anchor: the pod's manifest, and whether the pod is not meant to be there
//	prewarm.dev/claim, /owner   on the anchor too, where the claim came while there was no pod
//
// The anchor owns the other claims, the pod and the secret.
//
// # Create, and what may happen at any point of it
//
//	volume claims created, the anchor first -> pod created -> secret created, owned by the pod or the anchor
//
// The API server lets one pod have a name, which makes one of any number of creates win; the others read it, compare its
// tags, and go on from where it is. Without volumes these are the only two writes, and the second is only made for an agent: the secret holds
// its token. Until it is there the pod cannot start. It goes with its pod, since the pod owns it: the cluster's garbage
// collector sees to that wherever a delete of ours does not.
//
// A request that creates is waited for a little even when the call's context has ended: the API server may carry it out
// anyway, and what it makes after a clean-up by name would stay until the next sweep.
//
// # Truth
//
// Get, Ready and Delete read the pod itself, List pages through all of them; there is no cache. A watch (Observe) only says
// whom to look at. What a status means is
// decided by judge, which is pure. A pod with a deletion timestamp is never ready, and counts until it is gone.
//
// # The agent
//
// is copied into the pod by an init container, from an image with the prewarm binary that the provider's configuration
// names. The token is in a file that is mounted into the workspace's container alone: neither an argument nor a variable,
// which `kubectl describe` would show.
package kubernetes
