"""The OpenAI speech API and a page for people, over HTTP."""
