package coderd

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"github.com/prewarm-dev/prewarm/database"
)

// registry remembers what was registered: a metric with labels is not exported before something happened, and the
// documentation, the dashboard and the alerts are held against all there are.
type registry struct {
	*prometheus.Registry
	registered []prometheus.Collector
}

func newRegistry(store *database.Store) *registry {
	reg := &registry{Registry: prometheus.NewRegistry()}
	reg.Registry.MustRegister(collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	reg.MustRegister(newDatabaseCollector(store))
	return reg
}

// MustRegister is that of prometheus.Registerer.
func (r *registry) MustRegister(all ...prometheus.Collector) {
	r.Registry.MustRegister(all...)
	r.registered = append(r.registered, all...)
}

// newDatabaseCollector tells how the connection pool fares.
func newDatabaseCollector(store *database.Store) prometheus.Collector {
	return prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "prewarm_database_connections_in_use", Help: "Connections of this replica's pool that are in use.",
	}, func() float64 { return float64(store.Pool.Stat().AcquiredConns()) })
}
