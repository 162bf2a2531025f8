package sizing

// BatchSize is coveringSize.
var BatchSize = coveringSize
