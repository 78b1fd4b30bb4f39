"""An S3 server on loopback with the bucket `captures`: s3.py PORT (0: any). Prints its port, and ends with its standard input."""
import sys

import boto3
from moto.server import ThreadedMotoServer

server = ThreadedMotoServer(ip_address="127.0.0.1", port=int(sys.argv[1]), verbose=False)
server.start()
port = server.get_host_and_port()[1]
keys = {"aws_access_key_id": "key", "aws_secret_access_key": "secret", "region_name": "us-east-1"}
boto3.client("s3", endpoint_url=f"http://127.0.0.1:{port}", **keys).create_bucket(Bucket="captures")
print(port, flush=True)
sys.stdin.read()
server.stop()
