package kubernetes

import (
	"context"
	"encoding/json"
	"strings"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/version"
	apiversion "k8s.io/apimachinery/pkg/version"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
)

// cluster is one namespace of a cluster. It uses the REST client alone: the typed clients of client-go bring all of
// Kubernetes' API along, of which this needs few kinds.
type cluster struct {
	config    *rest.Config
	rest      rest.Interface
	namespace string
}

var (
	scheme     = newScheme()
	parameters = runtime.NewParameterCodec(scheme)
)

func newScheme() *runtime.Scheme {
	s := runtime.NewScheme()
	metav1.AddToGroupVersion(s, schemaVersion)
	for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, authorizationv1.AddToScheme} {
		if err := add(s); err != nil {
			panic(err) // it is the same each time
		}
	}
	return s
}

var schemaVersion = corev1.SchemeGroupVersion

func newCluster(c Config) (*cluster, error) {
	config, namespace, err := c.connection()
	if err != nil {
		return nil, err
	}
	config.APIPath, config.GroupVersion = "/api", &schemaVersion
	config.NegotiatedSerializer = serializer.NewCodecFactory(scheme).WithoutConversion()
	config.ContentType = runtime.ContentTypeProtobuf
	config.AcceptContentTypes = runtime.ContentTypeProtobuf + "," + runtime.ContentTypeJSON
	config.WarningHandlerWithContext = rest.NoWarnings{}
	client, err := rest.RESTClientFor(config)
	if err != nil {
		return nil, err
	}
	return &cluster{config: config, rest: client, namespace: namespace}, nil
}

func (c *cluster) pod(ctx context.Context, name string) (*corev1.Pod, error) {
	return get[corev1.Pod](ctx, c, "pods", name)
}

func (c *cluster) secret(ctx context.Context, name string) (*corev1.Secret, error) {
	return get[corev1.Secret](ctx, c, "secrets", name)
}

func get[T any, P interface {
	*T
	runtime.Object
}](ctx context.Context, c *cluster, resource, name string) (P, error) {
	into := P(new(T))
	err := c.rest.Get().Namespace(c.namespace).Resource(resource).Name(name).Do(ctx).Into(into)
	return into, err
}

func (c *cluster) create(ctx context.Context, resource string, object, into runtime.Object, options metav1.CreateOptions) error {
	return c.rest.Post().Namespace(c.namespace).Resource(resource).VersionedParams(&options, parameters).Body(object).Do(ctx).
		Into(into)
}

// remove deletes the object of that name, if it is the one of that UID.
func (c *cluster) remove(ctx context.Context, resource, name string, uid types.UID) error {
	return c.removeIf(ctx, resource, name, metav1.Preconditions{UID: &uid})
}

// removeIf deletes the object of that name, if it still is as it was.
func (c *cluster) removeIf(ctx context.Context, resource, name string, is metav1.Preconditions) error {
	return c.rest.Delete().Namespace(c.namespace).Resource(resource).Name(name).Body(&metav1.DeleteOptions{Preconditions: &is}).Do(ctx).Error()
}

// change is what an object is to have from now on, and what it must be for that.
type change struct {
	uid                 types.UID // empty: any
	has                 map[string]string
	labels, annotations map[string]string
}

// note adds labels and annotations to the object of that name, and reads it where it is wanted. It is one request that changes nothing, and
// is invalid, where the object has not that UID and those labels.
func (c *cluster) note(ctx context.Context, resource, name string, to change, into runtime.Object) error {
	type step struct {
		Op    string `json:"op"`
		Path  string `json:"path"`
		Value string `json:"value"`
	}
	var steps []step
	if to.uid != "" {
		steps = append(steps, step{Op: "test", Path: "/metadata/uid", Value: string(to.uid)})
	}
	place := func(at, key string) string {
		return "/metadata/" + at + "/" + strings.NewReplacer("~", "~0", "/", "~1").Replace(key)
	}
	for _, of := range []struct {
		op, at string
		all    map[string]string
	}{
		{"test", "labels", to.has}, {"add", "labels", to.labels}, {"add", "annotations", to.annotations},
	} {
		for key, value := range of.all {
			steps = append(steps, step{Op: of.op, Path: place(of.at, key), Value: value})
		}
	}
	body, err := json.Marshal(steps)
	if err != nil {
		return err
	}
	result := c.rest.Patch(types.JSONPatchType).Namespace(c.namespace).Resource(resource).Name(name).Body(body).Do(ctx)
	if into == nil {
		return result.Error()
	}
	return result.Into(into)
}

// resizePod has containers of the pod of that name get other resources while they run, if it is the one of that UID.
func (c *cluster) resizePod(ctx context.Context, name string, uid types.UID, to resources) error {
	var containers []map[string]any
	for name, amounts := range to {
		containers = append(containers, map[string]any{"name": name, "resources": amounts})
	}
	body, err := json.Marshal(map[string]any{"metadata": map[string]any{"uid": uid}, "spec": map[string]any{"containers": containers}})
	if err != nil {
		return err
	}
	return c.rest.Patch(types.StrategicMergePatchType).Namespace(c.namespace).Resource("pods").Name(name).SubResource("resize").Body(body).Do(ctx).Error()
}

// version is that of the API server.
func (c *cluster) version(ctx context.Context) (*version.Version, error) {
	raw, err := c.rest.Get().AbsPath("/version").SetHeader("Accept", runtime.ContentTypeJSON).Do(ctx).Raw()
	if err != nil {
		return nil, err
	}
	var is apiversion.Info
	if err := json.Unmarshal(raw, &is); err != nil {
		return nil, err
	}
	return version.ParseGeneric(is.GitVersion)
}

// may says whether the API server lets this client do something.
func (c *cluster) may(ctx context.Context, what authorizationv1.ResourceAttributes) (bool, error) {
	ask := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: &what}}
	err := c.rest.Post().AbsPath("/apis/authorization.k8s.io/v1/selfsubjectaccessreviews").Body(ask).Do(ctx).Into(ask)
	return ask.Status.Allowed, err
}

// watchPods streams what becomes of pods: first all that there are.
func (c *cluster) watchPods(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
	return c.rest.Get().Namespace(c.namespace).Resource("pods").VersionedParams(&options, parameters).Watch(ctx)
}

// claimResource is the name that the API has for volume claims.
const claimResource = "persistentvolumeclaims"

func (c *cluster) claim(ctx context.Context, name string) (*corev1.PersistentVolumeClaim, error) {
	return get[corev1.PersistentVolumeClaim](ctx, c, claimResource, name)
}

func (c *cluster) claims(ctx context.Context, options metav1.ListOptions) (*corev1.PersistentVolumeClaimList, error) {
	list := &corev1.PersistentVolumeClaimList{}
	err := c.rest.Get().Namespace(c.namespace).Resource(claimResource).VersionedParams(&options, parameters).Do(ctx).Into(list)
	return list, err
}

func (c *cluster) pods(ctx context.Context, options metav1.ListOptions) (*corev1.PodList, error) {
	list := &corev1.PodList{}
	err := c.rest.Get().Namespace(c.namespace).Resource("pods").VersionedParams(&options, parameters).Do(ctx).Into(list)
	return list, err
}
