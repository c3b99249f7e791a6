class Summary: pass
