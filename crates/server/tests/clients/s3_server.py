"""moto's S3 on a free port. Requests are serialised, so that conditional writes are atomic."""

import threading
from wsgiref.simple_server import WSGIRequestHandler, make_server

from moto.server import DomainDispatcherApplication, create_backend_app

ACCOUNT = {
    "AWS_ACCESS_KEY_ID": "testing",
    "AWS_SECRET_ACCESS_KEY": "testing",
    "AWS_REGION": "us-east-1",
    "AWS_ALLOW_HTTP": "true",
    "AWS_VIRTUAL_HOSTED_STYLE_REQUEST": "false",
}


class Silent(WSGIRequestHandler):
    def log_message(self, *_):
        pass


class S3:
    """A started server with one bucket; `environment` is what a client of it needs."""

    def __init__(self, bucket="sessions"):
        app = DomainDispatcherApplication(create_backend_app)
        self._server = make_server("127.0.0.1", 0, app, handler_class=Silent)
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()
        self.endpoint = f"http://127.0.0.1:{self._server.server_port}"
        self.environment = ACCOUNT | {"AWS_ENDPOINT": self.endpoint}
        self.url = f"s3://{bucket}/belljar"
        import boto3

        client = boto3.client(
            "s3",
            endpoint_url=self.endpoint,
            region_name="us-east-1",
            aws_access_key_id="testing",
            aws_secret_access_key="testing",
        )
        client.create_bucket(Bucket=bucket)

    def stop(self):
        self._server.shutdown()
        self._thread.join()
