"""An S3 server on loopback with the buckets `captures`, and `locked`, which nobody may use: s3.py PORT (0: any). Prints its port, and ends with its standard input."""
import json
import sys

import boto3
from moto.server import ThreadedMotoServer

server = ThreadedMotoServer(ip_address="127.0.0.1", port=int(sys.argv[1]), verbose=False)
server.start()
port = server.get_host_and_port()[1]
keys = {"aws_access_key_id": "key", "aws_secret_access_key": "secret", "region_name": "us-east-1"}
client = boto3.client("s3", endpoint_url=f"http://127.0.0.1:{port}", **keys)
for bucket in ["captures", "locked"]:
    client.create_bucket(Bucket=bucket)
resources = ["arn:aws:s3:::locked", "arn:aws:s3:::locked/*"]
deny = {"Effect": "Deny", "Principal": "*", "Action": "s3:*", "Resource": resources}
client.put_bucket_policy(Bucket="locked", Policy=json.dumps({"Version": "2012-10-17", "Statement": [deny]}))
print(port, flush=True)
sys.stdin.read()
server.stop()
