"""Pure: bounded time series with coarser tiers, robust statistics, min/max reduction for charts."""
