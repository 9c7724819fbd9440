"""What leaves trainmon besides the screen: records as JSON lines, plain lines for pipes. One module a form."""
