# The service with PostgreSQL support. Build: docker build -t bot-orch .   Run: see docs/how-to/postgresql.md
FROM python:3.11-slim

RUN useradd --create-home --uid 10001 bot
WORKDIR /opt/bot-orch
COPY pyproject.toml README.md LICENSE ./
COPY src ./src
RUN pip install --no-cache-dir '.[service,postgres]'

USER bot
EXPOSE 8080
HEALTHCHECK --interval=5s --timeout=3s --start-period=20s \
  CMD ["python", "-c", "import urllib.request; urllib.request.urlopen('http://127.0.0.1:8080/health/ready', timeout=2)"]
# SIGTERM writes everything down and takes a snapshot before it ends.
STOPSIGNAL SIGTERM
ENTRYPOINT ["bot-orch"]
CMD ["serve", "/etc/bot-orch/bot-orch.yaml", "--host", "0.0.0.0"]
