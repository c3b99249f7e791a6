"""The app at a node: it hands messages to the site there, and sees no row."""

from discreet.sites.flower_node import client_app

app = client_app()
