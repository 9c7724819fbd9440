"""The terminal screen: keys, layout, feed and pages. Nothing here reads logs; it shows the session's snapshots."""
