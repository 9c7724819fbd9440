from trainmon.tui.page import Behind
def likely_source(snapshot, screen): return None
class LogPage(Behind): pass
